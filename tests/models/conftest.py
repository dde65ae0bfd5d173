"""Backbones small enough to build in every test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from simsc.models.backbone import Backbone, from_spec
from simsc.models.registry import BackboneSpec, find_backbone

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
        sizes = {"depths": (2, 1, 3), "hidden_sizes": (16, 32, 64), "embedding_size": 8}
        return replace(spec, settings={**spec.settings, **sizes}, channels=64, blocks=6)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 4 * spec.stride}
    if "intermediate_size" in spec.settings:
        sizes["intermediate_size"] = 64
    return replace(spec, settings={**spec.settings, **sizes}, channels=32, blocks=3)


def randomize(backbone: Backbone, seed: int = 0) -> Backbone:
    """Give every weight and statistic a value of its own, so that no two can be mistaken for one another."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in backbone.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.randn(value.shape, generator=generator) * 0.2)
            if name.endswith(("running_var", "normalization.weight")):
                value.abs_().add_(0.5)
    return backbone.eval()


@pytest.fixture
def tiny() -> Callable[[str], Backbone]:
    """Build a tiny backbone of a family with random weights."""
    return lambda family, seed=0, **options: randomize(from_spec(tiny_spec(family), **options), seed)


@pytest.fixture(params=list(FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def torchvision_names() -> Callable[[Backbone], dict[str, torch.Tensor]]:
    """The weights of a ResNet under torchvision's names, written down independently of the loader."""
    return _torchvision_names


def _torchvision_names(backbone: Backbone) -> dict[str, torch.Tensor]:
    named: dict[str, torch.Tensor] = {}

    def take(layer: torch.nn.Module, convolution: str, normalization: str) -> None:
        named[f"{convolution}.weight"] = layer.convolution.weight.detach()
        for key, value in layer.normalization.state_dict().items():
            named[f"{normalization}.{key}"] = value

    take(backbone.network.embedder.embedder, "conv1", "bn1")
    for s, stage in enumerate(backbone.network.encoder.stages, start=1):
        for b, block in enumerate(stage.layers):
            for n, layer in enumerate(block.layer, start=1):
                take(layer, f"layer{s}.{b}.conv{n}", f"layer{s}.{b}.bn{n}")
            if not isinstance(block.shortcut, torch.nn.Identity):
                take(block.shortcut, f"layer{s}.{b}.downsample.0", f"layer{s}.{b}.downsample.1")
    return named
