"""Any backbone of the Hugging Face hub: ``hf:<repository>``, or ``hf:<folder>`` with a saved model.

``hf:<repository>@<revision>`` pins a commit, branch or tag. In any case configuration and weights are of one commit,
which the backbone's name then carries, so that a model that is saved with it says what it was built on. Only
safetensors are read, and no code of a repository is executed. The hub publishes no checksum that is known beforehand:
its files are unverified, as trustworthy as the connection and the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.errors import ConfigError, WeightsError
from simsc.models.backbone import Backbone, Tensors, from_spec, unset
from simsc.models.resnet import ResNet
from simsc.models.specs import HUB_PREFIX, IMAGENET_MEAN, IMAGENET_STD, BackboneSpec, Source, Triple
from simsc.models.vit import VisionTransformer
from simsc.models.weights import check_finite, fill, first_line, load_weights

Loaded = TypeVar("Loaded")
STAGES = 3
"""Stages of a ResNet that are used: up to stride 16, as for those of the registry."""


class WholeNetwork(Backbone):
    """A network we cannot cut: its last feature map, with everything or nothing in the tail."""

    def __init__(self, spec: BackboneSpec, network: nn.Module) -> None:
        super().__init__(spec)
        self.network: Any = network

    def embed(self, images: Tensor) -> Tensor:
        """The whole network counts as the embedding."""
        features: Tensor = self.network(images).feature_maps[-1]
        return features

    def run_blocks(self, state: Tensor, start: int, stop: int, image_size: Size) -> Tensor:  # noqa: ARG002
        """There are no blocks."""
        return state

    def to_map(self, state: Tensor, image_size: Size, final: bool) -> Tensor:  # noqa: ARG002
        """The state is the map."""
        return state

    def tail_modules(self) -> list[nn.Module]:
        """Everything or nothing."""
        return [self.network] if self.tail_blocks else []

    def stage_blocks(self) -> int:
        """There are none."""
        return 0

    def own_names(self, tensors: Tensors) -> Tensors:
        """The library's names, below the network."""
        return {f"network.{key.removeprefix('network.')}": value for key, value in tensors.items()}


@dataclass(frozen=True)
class Known:
    """A network of the hub that is built with our own modules, so that it can be cut anywhere."""

    build: Callable[..., Backbone]
    channels: int
    stride: int
    blocks: int
    settings: Mapping[str, Any]


def build_hub_backbone(repository: str, weights: str | Path | None) -> Backbone:
    """Build a backbone from its configuration on the hub, with the hub's weights, a file's, random ones or none."""
    config = _load(repository, _transformers().AutoConfig.from_pretrained)
    repository = _pinned(repository, config)
    known = _known(config)
    backbone = _whole(repository, config, weights) if known is None else _cuttable(repository, known, weights)
    if weights not in (None, "random", "default", "unset"):
        load_weights(backbone, Path(str(weights)))
    return backbone


def _cuttable(repository: str, known: Known, weights: str | Path | None) -> Backbone:
    spec = _spec(repository, known)
    if weights in (None, "random"):
        return from_spec(spec)
    backbone = unset(spec)
    if weights == "default":
        network = _load(repository, _transformers().AutoModel.from_pretrained, use_safetensors=True)
        fill(backbone, _finite(network, repository), f"{HUB_PREFIX}{repository}")
    return backbone


def _whole(repository: str, config: Any, weights: str | Path | None) -> Backbone:
    model = _backbone_class(config)
    if weights == "default":
        network = _load(repository, model.from_pretrained, config=config, use_safetensors=True)
        _finite(network, repository)
    else:
        network = model(config)
    known = Known(WholeNetwork, *_measure(network), 0, {"network": network})
    return from_spec(_spec(repository, known))


def _finite(network: nn.Module, repository: str) -> Tensors:
    try:
        return check_finite(network.state_dict())
    except WeightsError as error:
        raise WeightsError(f"{HUB_PREFIX}{repository}: {error}") from None


def _spec(repository: str, known: Known) -> BackboneSpec:
    mean, std = _normalisation(repository)
    return BackboneSpec(
        f"{HUB_PREFIX}{repository}",
        known.channels,
        known.stride,
        known.blocks,
        "see its model card",
        known.build,
        Source("model.safetensors", page=f"https://huggingface.co/{_page(repository)}", hub=repository),
        known.settings,
        input_size=max(round(256 / known.stride), 1) * known.stride,
        mean=mean,
        std=std,
    )


def _page(repository: str) -> str:
    name, _, revision = split_revision(repository)
    return f"{name}/tree/{revision}" if revision else name


def _known(config: Any) -> Known | None:
    """How our own modules build the network of a configuration; None if they do not have what it asks for."""
    kind = config.model_type
    if kind == "resnet":
        return _known_resnet(config)
    if kind not in ("vit", "dinov2", "dinov2_with_registers", "dinov3_vit") or not _is_plain_vit(config):
        return None
    settings: dict[str, Any] = {"heads": config.num_attention_heads, "epsilon": config.layer_norm_eps}
    settings["hidden"] = getattr(config, "intermediate_size", None) or int(config.hidden_size * config.mlp_ratio)
    settings["layer_scale"] = kind != "vit"
    settings["registers"] = getattr(config, "num_register_tokens", 0)
    if kind == "dinov3_vit":
        settings |= {"rotary": True, "rotary_base": config.rope_theta, "key_bias": config.key_bias}
    else:
        settings |= {"positions": config.image_size // config.patch_size, "antialias": kind.endswith("registers")}
    return Known(VisionTransformer, config.hidden_size, config.patch_size, config.num_hidden_layers, settings)


def _known_resnet(config: Any) -> Known | None:
    if config.hidden_act != "relu" or config.downsample_in_first_stage:
        return None
    depths, widths = list(config.depths)[:STAGES], list(config.hidden_sizes)[:STAGES]
    settings = {"depths": depths, "widths": widths, "stem": config.embedding_size}
    settings |= {"v1": config.downsample_in_bottleneck, "basic": config.layer_type == "basic"}
    return Known(ResNet, widths[-1], 2 ** (len(depths) + 1), sum(depths), settings)


def _is_plain_vit(config: Any) -> bool:
    """Square patches, GELU, biases where our modules have them."""
    sizes = (config.patch_size, config.image_size)
    biases = ("qkv_bias", "query_bias", "value_bias", "proj_bias", "mlp_bias")
    gated = getattr(config, "use_swiglu_ffn", False) or getattr(config, "use_gated_mlp", False)
    return (
        config.hidden_act == "gelu"
        and not gated
        and all(isinstance(size, int) for size in sizes)
        and all(getattr(config, bias, True) for bias in biases)
    )


def _backbone_class(config: Any) -> Any:
    _transformers()
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING

    if type(config) not in MODEL_FOR_BACKBONE_MAPPING:
        raise ConfigError(
            f"models of type '{config.model_type}' give no feature maps: transformers has no backbone of it"
        )
    return MODEL_FOR_BACKBONE_MAPPING[type(config)]


def _transformers() -> Any:
    """The library, which is an extra: none of our own backbones needs it."""
    try:
        import transformers
    except ImportError as error:
        raise ConfigError(
            f"{HUB_PREFIX}<repository> needs transformers ({error}); install it with: pip install 'simsc[hub]'"
        ) from error
    return transformers


def _pinned(repository: str, config: Any) -> str:
    """The name with the commit that its configuration is of; a folder has none."""
    name, _, revision = split_revision(repository)
    commit = getattr(config, "_commit_hash", None) or revision
    return f"{name}@{commit}" if commit else name


def split_revision(repository: str) -> tuple[str, str, str | None]:
    """``(name, mark, revision)`` of ``name@revision``; a folder is never split.

    >>> split_revision("facebook/dino-vitb8@main"), split_revision("facebook/dino-vitb8")
    (('facebook/dino-vitb8', '@', 'main'), ('facebook/dino-vitb8', '', None))
    """
    if Path(repository).is_dir():
        return repository, "", None
    name, mark, revision = repository.partition("@")
    return name, mark, revision or None


def _load(repository: str, load: Callable[..., Loaded], **arguments: Any) -> Loaded:
    """From the local cache if it is there, so that it works offline and does not change under our feet."""
    name, _, revision = split_revision(repository)
    if revision:
        arguments["revision"] = revision
    try:
        try:
            return load(name, local_files_only=True, **arguments)
        except OSError:
            return load(name, **arguments)
    except MemoryError:
        raise
    except Exception as error:  # the library meets foreign files here, and raises whatever comes to it
        reason = first_line(error)
        raise WeightsError(
            f"cannot load https://huggingface.co/{repository} ({reason}); check the name and the connection, or "
            f"give a folder with config.json and model.safetensors as {HUB_PREFIX}<folder>"
        ) from error


def _normalisation(repository: str) -> tuple[Triple, Triple]:
    """Mean and std of the repository's preprocessor; ImageNet's if it has none."""
    from transformers.image_processing_base import ImageProcessingMixin

    try:
        found, _ = _load(repository, ImageProcessingMixin.get_image_processor_dict)
    except WeightsError:
        found = {}
    mean, std = found.get("image_mean") or IMAGENET_MEAN, found.get("image_std") or IMAGENET_STD
    return tuple(mean), tuple(std)


def _measure(network: nn.Module) -> tuple[int, int]:
    """Channels and stride of an unknown network, read off one blank image."""
    side = 224
    with torch.no_grad():
        features = network.eval()(torch.zeros(1, 3, side, side)).feature_maps[-1]
    return int(features.shape[1]), side // int(features.shape[-1])
