"""The backbones we know by name: where they come from, what they expect, what they give. Imports no torch."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simsc.errors import ConfigError, unknown_name
from simsc.registry import Registry

if TYPE_CHECKING:
    from simsc.models.backbone import Backbone

Triple = tuple[float, float, float]
IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)
HUB_PREFIX = "hf:"


@dataclass(frozen=True)
class Source:
    """Where the weights of a backbone come from.

    Attributes:
        file: name of the file in the weights folder.
        url: direct address of the file; None if it has no public one.
        page: where a person can get the file when there is no direct address.
        sha256: hexadecimal digits of the file's SHA-256, all or the first ones; None if unpublished.
        hub: repository on the Hugging Face hub with the same weights.
        others: further names under which the same weights may lie in a weights folder, with their SHA-256 (None if
            files of that name differ); looked for after ``file``.
    """

    file: str
    url: str | None = None
    page: str | None = None
    sha256: str | None = None
    hub: str | None = None
    others: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where to look for the file, for people."""
        return self.url or self.page or "no public address"

    @property
    def files(self) -> dict[str, str | None]:
        """All names the file may have, with their SHA-256."""
        return {self.file: self.sha256, **self.others}


@dataclass(frozen=True)
class BackboneSpec:
    """One backbone: all that a package has to give to add its own (entry points ``simsc.backbones``).

    Attributes:
        name: ``architecture.pretraining``.
        channels: C of its feature map ``(B, C, h, w)``.
        stride: image pixels per cell.
        blocks: number of residual or transformer blocks; 0 for a network that cannot be cut.
        licence: of the weights.
        build: gives the network with random weights, called with this entry and ``settings``; a class will do.
        source: where the weights come from; None if ``build`` brings them along.
        settings: further arguments of ``build``.
        input_size: default side of the square input, a multiple of the stride.
        mean, std: normalisation of RGB in ``[0, 1]``.
        aliases: short names.
    """

    name: str
    channels: int
    stride: int
    blocks: int
    licence: str
    build: Callable[..., Backbone] = field(repr=False)
    source: Source | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    input_size: int = 256
    mean: Triple = IMAGENET_MEAN
    std: Triple = IMAGENET_STD
    aliases: tuple[str, ...] = ()


BACKBONES: Registry[BackboneSpec] = Registry("backbone", "simsc.backbones")


def list_backbones(pattern: str = "*") -> list[str]:
    """Names of the registry, in its order, that match a shell pattern (by name or alias).

    >>> list_backbones("resnet50*")
    ['resnet50.tv_in1k', 'resnet50.v1_in1k']
    """
    return [name for name, spec in BACKBONES.items() if fnmatch.filter((name, *spec.aliases), pattern)]


def find_backbone(name: str) -> BackboneSpec:
    """The entry of a name or alias.

    >>> find_backbone("ibot-vitb16").name
    'vit_base_patch16.ibot'
    """
    # Our own first: they must not depend on what other packages bring, nor on reading which ones there are.
    name = _ALIASES.get(name, name)
    if name in BACKBONES:
        return BACKBONES[name]
    if found := next((spec for _, spec in BACKBONES.items() if name in spec.aliases), None):
        return found
    if name.startswith(HUB_PREFIX):
        raise ConfigError(f"'{name}' is not in the registry: a hub backbone describes itself once it is built")
    raise ConfigError(unknown_name("backbone", name, backbone_names()) + f", or {HUB_PREFIX}<repository> of the hub")


def backbone_names() -> list[str]:
    """All names and aliases."""
    return [alias for name, spec in BACKBONES.items() for alias in (name, *spec.aliases)]


_META = "https://dl.fbaipublicfiles.com"
_IBOT = "https://lf3-nlp-opensource.bytetos.com/obj/nlp-opensource/archive/2022/ibot"
_VIT_SIZES = {"small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16)}  # width, blocks, heads


def _build_resnet(spec: BackboneSpec, **settings: Any) -> Backbone:
    from simsc.models.resnet import ResNet

    return ResNet(spec, **settings)


def _build_vit(spec: BackboneSpec, **settings: Any) -> Backbone:
    from simsc.models.vit import VisionTransformer

    return VisionTransformer(spec, **settings)


def _digits(file: str) -> str:
    """The first digits of a file's SHA-256 that end its name, as ``torch.hub`` has it."""
    return file.removesuffix(".pth").rpartition("-")[2]


def _resnet(
    name: str, depths: tuple[int, ...], licence: str, source: Source, alias: str, v1: bool = False
) -> BackboneSpec:
    """Cut before the fourth stage, hence stride 16 and 1024 channels."""
    settings = {"depths": depths, "v1": v1}
    return BackboneSpec(name, 1024, 16, sum(depths), licence, _build_resnet, source, settings, aliases=(alias,))


def _torchvision(file: str, **others: str) -> Source:
    return Source(file, url=f"https://download.pytorch.org/models/{file}", sha256=_digits(file), others={**others})


def _vit(size: str, patch: int, training: str, source: Source, alias: str, **settings: Any) -> BackboneSpec:
    width, blocks, heads = _VIT_SIZES[size]
    return BackboneSpec(
        name=f"vit_{size}_patch{patch}.{training}",
        channels=width,
        stride=patch,
        blocks=blocks,
        licence="DINOv3 License" if training == "dinov3" else "Apache-2.0",
        build=_build_vit,
        source=source,
        settings={"heads": heads, **settings},
        input_size=256 // patch * patch,
        aliases=(alias,),
    )


def _plain(size: str, patch: int, training: str, source: Source) -> BackboneSpec:
    """The plain ViT of DINO and iBOT, pre-trained at 224."""
    return _vit(size, patch, training, source, f"{training}-vit{size[0]}{patch}", positions=224 // patch)


def _dino(size: str, patch: int, file: str) -> BackboneSpec:
    url = f"{_META}/dino/{file}/{file}.pth"
    return _plain(size, patch, "dino", Source(f"{file}.pth", url=url, hub=f"facebook/dino-vit{size[0]}{patch}"))


def _dinov2(size: str, registers: int) -> BackboneSpec:
    """DINOv2: its last pre-training stage had images of 518, so 37 x 37 position embeddings."""
    model = f"dinov2_vit{size[0]}14"
    file = f"{model}_reg4_pretrain.pth" if registers else f"{model}_pretrain.pth"
    hub = f"facebook/dinov2-with-registers-{size}" if registers else f"facebook/dinov2-{size}"
    # The same weights as safetensors, or with the ending cut off, as people and packages keep them.
    stem = file.removesuffix("_pretrain.pth")
    others = {f"{stem}_pretrain.safetensors": None, f"{stem}.safetensors": None, f"{stem}.pth": None}
    source = Source(file, url=f"{_META}/dinov2/{model}/{file}", hub=hub, others=others)
    settings = {"positions": 518 // 14, "layer_scale": True, "registers": registers, "antialias": registers > 0}
    training, alias = ("dinov2_reg4", f"dinov2-{size}-reg") if registers else ("dinov2", f"dinov2-{size}")
    return _vit(size, 14, training, source, alias, **settings)


def _dinov3(size: str, file: str) -> BackboneSpec:
    """DINOv3: its files are handed out after its licence was accepted, so there is no direct address."""
    hub = f"facebook/dinov3-vit{size[0]}16-pretrain-lvd1689m"
    source = Source(file, page=f"https://huggingface.co/{hub}", sha256=_digits(file), hub=hub)
    settings = {"rotary": True, "registers": 4, "layer_scale": True, "key_bias": False, "epsilon": 1e-5}
    return _vit(size, 16, "dinov3", source, f"dinov3-{size}", **settings)


_V1_SHA256 = "b1b230478529d7c2678143b3c5afd17ce60dc8013a85782e63a309c0650f66de"
_TV_TRUNK_SHA256 = "5a6ce526062feb3b898a049286285c503f4b80e7467102a10587efff3936e8fc"
_RESNET50_V1 = Source("resnet50_v1_imagenet_trunk.safetensors", sha256=_V1_SHA256)
_RESNET50_TV = _torchvision("resnet50-0676ba61.pth", **{"resnet50_tv_imagenet_trunk.safetensors": _TV_TRUNK_SHA256})
_IBOT_BASE = Source("ibot_vitb16_checkpoint_teacher.pth", url=f"{_IBOT}/vitb_16/checkpoint_teacher.pth")


def _entries() -> Iterator[BackboneSpec]:
    yield _resnet("resnet50.tv_in1k", (3, 4, 6), "BSD-3-Clause", _RESNET50_TV, "resnet50")
    yield _resnet("resnet50.v1_in1k", (3, 4, 6), "MIT", _RESNET50_V1, "resnet50-v1", v1=True)
    yield _resnet("resnet101.tv_in1k", (3, 4, 23), "BSD-3-Clause", _torchvision("resnet101-63fe2227.pth"), "resnet101")
    yield _dino("small", 16, "dino_deitsmall16_pretrain")
    yield _dino("small", 8, "dino_deitsmall8_pretrain")
    yield _dino("base", 16, "dino_vitbase16_pretrain")
    yield _dino("base", 8, "dino_vitbase8_pretrain")
    yield _plain("base", 16, "ibot", _IBOT_BASE)
    for registers in (0, 4):
        for size in _VIT_SIZES:
            yield _dinov2(size, registers)
    yield _dinov3("small", "dinov3_vits16_pretrain_lvd1689m-08c60483.pth")
    yield _dinov3("base", "dinov3_vitb16_pretrain_lvd1689m-73cec8be.pth")


_ALIASES: dict[str, str] = {}
for _spec in _entries():
    BACKBONES.add(_spec.name, _spec)
    _ALIASES.update(dict.fromkeys(_spec.aliases, _spec.name))
