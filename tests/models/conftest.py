"""Backbones small enough to build in every test."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from simsc.models.backbone import Backbone, from_spec
from simsc.models.specs import BackboneSpec, find_backbone

FAMILIES = {
    "resnet": "resnet50.tv_in1k",
    "resnet-v1": "resnet50.v1_in1k",
    "vit": "vit_base_patch16.ibot",
    "dinov2": "vit_small_patch14.dinov2",
    "dinov2-registers": "vit_small_patch14.dinov2_reg4",
    "dinov3": "vit_small_patch16.dinov3",
}


def tiny_spec(family: str) -> BackboneSpec:
    """The entry of a family with every size shrunk, names and structure kept."""
    spec = find_backbone(FAMILIES[family])
    if family.startswith("resnet"):
        sizes = {"depths": (2, 1, 3), "widths": (16, 32, 64), "stem": 8}
        return replace(spec, settings={**spec.settings, **sizes}, channels=64, blocks=6)
    sizes = {"heads": 2, "hidden": 64}
    if "positions" in spec.settings:
        sizes["positions"] = 4
    return replace(spec, settings={**spec.settings, **sizes}, channels=32, blocks=3)


def randomize(backbone: Backbone, seed: int = 0) -> Backbone:
    """Give every weight and statistic a value of its own, so that no two can be mistaken for one another."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in backbone.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.randn(value.shape, generator=generator) * 0.2)
            if re.search(r"running_var$|(bn\d|downsample\.1)\.weight$", name):
                value.abs_().add_(0.5)
    return backbone.eval()


@pytest.fixture
def tiny() -> Callable[[str], Backbone]:
    """Build a tiny backbone of a family with random weights."""
    return lambda family, seed=0: randomize(from_spec(tiny_spec(family)), seed)


@pytest.fixture(params=list(FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    return request.param
