"""Any backbone of the Hugging Face hub: ``hf:<repository>``, or ``hf:<folder>`` with a saved model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.errors import ConfigError, WeightsError
from simsc.models.backbone import Backbone
from simsc.models.registry import HUB_PREFIX, IMAGENET_MEAN, IMAGENET_STD, BackboneSpec, Source, Triple
from simsc.models.resnet import ResNet
from simsc.models.vit import WRAPPERS

Loaded = TypeVar("Loaded")


class WholeNetwork(Backbone):
    """A network we cannot cut: its last feature map, with everything or nothing in the tail."""

    def __init__(self, spec: BackboneSpec, network: nn.Module) -> None:
        super().__init__(spec)
        self.network: Any = network

    def embed(self, images: Tensor) -> Tensor:
        """The whole network counts as the embedding."""
        return self.network(images).feature_maps[-1]

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
        """The network is one block."""
        return 1

    def grid_size(self, image_size: Size) -> Size:
        """Partial cells at the border count."""
        return -(-image_size[0] // self.stride), -(-image_size[1] // self.stride)


def build_hub_backbone(repository: str, weights: str | Path | None, final_norm: bool) -> Backbone:
    """Build a backbone from its configuration on the hub, with the hub's weights, a file's, or random ones."""
    import transformers

    config = _load(repository, transformers.AutoConfig.from_pretrained)
    if config.model_type == "resnet":
        _cut_last_stage(config)
    if weights == "default":
        network = _load(repository, _model_class(config).from_pretrained, config=config, **_without_pooler(config))
    else:
        network = _model_class(config)(config, **_without_pooler(config))
    backbone = _wrap(repository, network, config, final_norm)
    if weights not in (None, "random", "default"):
        from simsc.models.weights import load_weights

        load_weights(backbone, Path(str(weights)))
    return backbone


def _wrap(repository: str, network: Any, config: Any, final_norm: bool) -> Backbone:
    family = config.model_type
    mean, std = _normalisation(repository)
    if family == "resnet":
        sizes = (config.hidden_sizes[-1], 2 ** (len(config.depths) + 1), sum(config.depths))
    elif family in WRAPPERS:
        sizes = (config.hidden_size, config.patch_size, config.num_hidden_layers)
    else:
        sizes = (*_measure(network), 0)
    source = Source("model.safetensors", page=f"https://huggingface.co/{repository}", hub=repository)
    licence = "see its model card"
    side = max(round(256 / sizes[1]), 1) * sizes[1]
    name = f"{HUB_PREFIX}{repository}"
    spec = BackboneSpec(name, family, *sizes, licence, source, {}, input_size=side, mean=mean, std=std)
    if family == "resnet":
        return ResNet(spec, network)
    return WRAPPERS[family](spec, network, final_norm) if family in WRAPPERS else WholeNetwork(spec, network)


def _model_class(config: Any) -> Any:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING

    if config.model_type == "vit":
        return transformers.ViTModel
    if type(config) not in MODEL_FOR_BACKBONE_MAPPING:
        raise ConfigError(
            f"models of type '{config.model_type}' give no feature maps: transformers has no backbone of it"
        )
    return MODEL_FOR_BACKBONE_MAPPING[type(config)]


def _without_pooler(config: Any) -> dict[str, bool]:
    return {"add_pooling_layer": False} if config.model_type == "vit" else {}


def _cut_last_stage(config: Any) -> None:
    """Keep the stages up to stride 16, as for the ResNets of the registry."""
    config.depths, config.hidden_sizes = list(config.depths)[:3], list(config.hidden_sizes)[:3]
    config.stage_names = config.stage_names[:4]
    config.out_features = [config.stage_names[-1]]


def _load(repository: str, load: Callable[..., Loaded], **arguments: Any) -> Loaded:
    """From the local cache if it is there, so that it works offline and does not change under our feet."""
    try:
        try:
            return load(repository, local_files_only=True, **arguments)
        except OSError:
            return load(repository, **arguments)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
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
