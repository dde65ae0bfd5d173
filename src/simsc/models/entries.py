"""The table behind :mod:`simsc.models.registry`: one entry of facts per backbone."""

from __future__ import annotations

from typing import Any

from simsc.models.registry import BackboneSpec, Source

_META = "https://dl.fbaipublicfiles.com"
_IBOT = "https://lf3-nlp-opensource.bytetos.com/obj/nlp-opensource/archive/2022/ibot"
_V1_SHA256 = "b1b230478529d7c2678143b3c5afd17ce60dc8013a85782e63a309c0650f66de"
_VIT_SIZES = {  # width, blocks, heads
    "small": (384, 12, 6),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
}


def _digits(file: str) -> str:
    """The first digits of a file's SHA-256 that end its name, as ``torch.hub`` has it."""
    return file.removesuffix(".pth").rpartition("-")[2]


def _resnet(
    name: str, depths: tuple[int, ...], licence: str, source: Source, alias: str, v1: bool = False
) -> BackboneSpec:
    """Cut before the fourth stage, hence stride 16 and 1024 channels.

    ``v1`` puts the stride of a stage into its first 1x1 convolution instead of the 3x3 one.
    """
    settings = {"depths": depths, "hidden_sizes": (256, 512, 1024), "downsample_in_bottleneck": v1}
    return BackboneSpec(name, "resnet", 1024, 16, sum(depths), licence, source, settings, aliases=(alias,))


def _torchvision(file: str) -> Source:
    return Source(file, url=f"https://download.pytorch.org/models/{file}", sha256=_digits(file))


def _transformer(
    size: str, patch: int, training: str, family: str, source: Source, alias: str, **settings: Any
) -> BackboneSpec:
    width, blocks, heads = _VIT_SIZES[size]
    sizes = {
        "hidden_size": width,
        "num_hidden_layers": blocks,
        "num_attention_heads": heads,
        "patch_size": patch,
    }
    return BackboneSpec(
        name=f"vit_{size}_patch{patch}.{training}",
        family=family,
        channels=width,
        stride=patch,
        blocks=blocks,
        licence="DINOv3 License" if family == "dinov3_vit" else "Apache-2.0",
        source=source,
        settings={**sizes, **settings},
        input_size=256 // patch * patch,
        aliases=(alias,),
    )


def _vit(size: str, patch: int, training: str, source: Source) -> BackboneSpec:
    """The plain ViT of DINO and iBOT, pre-trained at 224."""
    width = _VIT_SIZES[size][0]
    settings = {"image_size": 224, "intermediate_size": 4 * width, "layer_norm_eps": 1e-6}
    alias = f"{training}-vit{size[0]}{patch}"
    return _transformer(size, patch, training, "vit", source, alias, **settings)


def _dino(size: str, patch: int, file: str) -> BackboneSpec:
    url = f"{_META}/dino/{file}/{file}.pth"
    return _vit(size, patch, "dino", Source(f"{file}.pth", url=url, hub=f"facebook/dino-vit{size[0]}{patch}"))


def _dinov2(size: str, registers: bool) -> BackboneSpec:
    """DINOv2: its last pre-training stage had images of 518, so 37 x 37 position embeddings."""
    model = f"dinov2_vit{size[0]}14"
    file = f"{model}_reg4_pretrain.pth" if registers else f"{model}_pretrain.pth"
    hub = f"facebook/dinov2-with-registers-{size}" if registers else f"facebook/dinov2-{size}"
    source = Source(file, url=f"{_META}/dinov2/{model}/{file}", hub=hub)
    if registers:
        family, training, alias = "dinov2_with_registers", "dinov2_reg4", f"dinov2-{size}-reg"
        return _transformer(size, 14, training, family, source, alias, image_size=518, num_register_tokens=4)
    return _transformer(size, 14, "dinov2", "dinov2", source, f"dinov2-{size}", image_size=518)


def _dinov3(size: str, file: str) -> BackboneSpec:
    """DINOv3: its files are handed out after its licence was accepted, so there is no direct address."""
    hub = f"facebook/dinov3-vit{size[0]}16-pretrain-lvd1689m"
    source = Source(file, page=f"https://huggingface.co/{hub}", sha256=_digits(file), hub=hub)
    width = _VIT_SIZES[size][0]
    settings = {"intermediate_size": 4 * width, "num_register_tokens": 4, "key_bias": False}
    return _transformer(size, 16, "dinov3", "dinov3_vit", source, f"dinov3-{size}", **settings)


_RESNET50_V1 = Source("resnet50_v1_imagenet_trunk.safetensors", sha256=_V1_SHA256)
_IBOT_BASE = Source("ibot_vitb16_checkpoint_teacher.pth", url=f"{_IBOT}/vitb_16/checkpoint_teacher.pth")

ENTRIES: tuple[BackboneSpec, ...] = (
    _resnet("resnet50.tv_in1k", (3, 4, 6), "BSD-3-Clause", _torchvision("resnet50-0676ba61.pth"), "resnet50"),
    _resnet("resnet50.v1_in1k", (3, 4, 6), "MIT", _RESNET50_V1, "resnet50-v1", v1=True),
    _resnet("resnet101.tv_in1k", (3, 4, 23), "BSD-3-Clause", _torchvision("resnet101-63fe2227.pth"), "resnet101"),
    _dino("small", 16, "dino_deitsmall16_pretrain"),
    _dino("small", 8, "dino_deitsmall8_pretrain"),
    _dino("base", 16, "dino_vitbase16_pretrain"),
    _dino("base", 8, "dino_vitbase8_pretrain"),
    _vit("base", 16, "ibot", _IBOT_BASE),
    _dinov2("small", registers=False),
    _dinov2("base", registers=False),
    _dinov2("large", registers=False),
    _dinov2("small", registers=True),
    _dinov2("base", registers=True),
    _dinov2("large", registers=True),
    _dinov3("small", "dinov3_vits16_pretrain_lvd1689m-08c60483.pth"),
    _dinov3("base", "dinov3_vitb16_pretrain_lvd1689m-73cec8be.pth"),
)
