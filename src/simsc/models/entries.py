"""The table behind :mod:`simsc.models.registry`: one line of facts per backbone."""

from __future__ import annotations

from simsc.models.registry import BackboneSpec, Source

TRUNK_SHA256 = "b1b230478529d7c2678143b3c5afd17ce60dc8013a85782e63a309c0650f66de"


def _resnet(
    name: str, depths: tuple[int, ...], licence: str, source: Source, v1: bool, *aliases: str
) -> BackboneSpec:
    """Cut before the fourth stage, so stride 16 and 1024 channels."""
    settings = {"depths": depths, "hidden_sizes": (256, 512, 1024), "downsample_in_bottleneck": v1}
    return BackboneSpec(name, "resnet", 1024, 16, sum(depths), licence, source, settings, aliases=aliases)


def _torchvision(file: str) -> Source:
    # These file names end in the first digits of the file's own SHA-256.
    digits = file.removesuffix(".pth").rpartition("-")[2]
    return Source(file, f"https://download.pytorch.org/models/{file}", digits, "torchvision")


_SPECS = (
    _resnet(
        "resnet50.tv_in1k",
        (3, 4, 6),
        "BSD-3-Clause",
        _torchvision("resnet50-0676ba61.pth"),
        False,
        "resnet50",
    ),
    _resnet(
        "resnet101.tv_in1k",
        (3, 4, 23),
        "BSD-3-Clause",
        _torchvision("resnet101-63fe2227.pth"),
        False,
        "resnet101",
    ),
    _resnet(
        "resnet50.v1_in1k",
        (3, 4, 6),
        "MIT",
        Source(
            "resnet50_v1_imagenet_trunk.safetensors",
            sha256=TRUNK_SHA256,
            layout="torchvision",
            note="it has no public address",
        ),
        True,
        "resnet50-v1",
    ),
)

ENTRIES = {spec.name: spec for spec in _SPECS}
