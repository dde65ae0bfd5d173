"""Runs that were begun when the backbone's parts had other names."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from simsc.errors import DataError
from simsc.models.backbone import from_spec
from simsc.models.model import SimSC
from simsc.models.specs import find_backbone
from simsc.training.run_folder import collect_tensors, restore_tensors
from simsc.training.step import WeightAverage


def small(name: str, seed: int) -> SimSC:
    spec = find_backbone(name)
    if name == "resnet50":
        settings = {"depths": (1, 1, 2), "widths": (16, 32, 64), "stem": 8}
        spec = replace(spec, settings=settings, channels=64, blocks=4)
    else:
        settings = {**spec.settings, "heads": 2, "positions": 4}
        spec = replace(spec, settings=settings, channels=32, blocks=2)
    torch.manual_seed(seed)
    return SimSC(from_spec(spec), "mlp", "last-stage")


def stepped(model: SimSC) -> tuple[torch.optim.Optimizer, WeightAverage]:
    optimizer, average = torch.optim.Adam(model.parameter_groups()), WeightAverage(model, 0.9)
    side = 4 * model.backbone.stride
    features = model.encode(torch.rand(1, 3, side, side))
    (features.maps.square().mean() + features.beta.sum()).backward()
    optimizer.step()
    average.update(1)
    return optimizer, average


def before(key: str) -> str:
    """The name a ResNet's tensor had, written down independently of the reader."""
    kinds = {"conv": "convolution", "bn": "normalization", "0": "convolution", "1": "normalization"}
    part, _, name = key.partition("/")
    name = name.removeprefix("backbone.")
    if match := re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)\.(\w+)", name):
        stage, block, kind, number, rest = match.groups()
        place = f"encoder.stages.{int(stage) - 1}.layers.{block}.layer.{int(number) - 1}.{kinds[kind]}.{rest}"
    elif match := re.fullmatch(r"layer(\d)\.(\d+)\.downsample\.([01])\.(\w+)", name):
        stage, block, kind, rest = match.groups()
        place = f"encoder.stages.{int(stage) - 1}.layers.{block}.shortcut.{kinds[kind]}.{rest}"
    elif match := re.fullmatch(r"(conv|bn)1\.(\w+)", name):
        place = f"embedder.embedder.{kinds[match[1]]}.{match[2]}"
    else:
        return key
    return f"{part}/backbone.network.{place}"


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(found[key], value), key


def test_an_older_run_of_a_resnet_goes_on_exactly() -> None:
    model = small("resnet50", 0)
    expected = collect_tensors(model, *stepped(model))
    old = {before(key): value for key, value in expected.items()}
    assert old.keys() != expected.keys()
    fresh = small("resnet50", 1)
    optimizer, average = stepped(fresh)
    restore_tensors(old, fresh, optimizer, average)
    assert_equal(collect_tensors(fresh, optimizer, average), expected)


def test_the_optimisers_order_is_that_of_older_runs() -> None:
    """Its state is stored by number: a block's projection comes first."""
    names = [name for name, _ in small("resnet50", 0).backbone.get_submodule("layer3.0").named_parameters()]
    assert names[:4] == ["downsample.0.weight", "downsample.1.weight", "downsample.1.bias", "conv1.weight"]


def test_an_older_run_of_a_transformer_is_refused() -> None:
    """Its projections were three parameters; the optimiser's state of them cannot be told apart by number."""
    model = small("dinov2-small", 0)
    optimizer, average = stepped(model)
    tensors = collect_tensors(model, optimizer, average)
    old: dict[str, Tensor] = {}
    for key, value in tensors.items():
        name = key.replace("backbone.norm.", "backbone.network.layernorm.")
        name = name.replace("backbone.blocks.", "backbone.network.encoder.layer.")
        name = name.replace(".attn.proj.", ".attention.o_proj.").replace(".ls1.gamma", ".layer_scale1.lambda1")
        name = name.replace(".ls2.gamma", ".layer_scale2.lambda1")
        parts = zip("qkv", value.chunk(3), strict=True) if ".attn.qkv." in name else [("", value)]
        old |= {name.replace("attn.qkv", f"attention.{letter}_proj"): part for letter, part in parts}
    with pytest.raises(DataError, match="written by another version of simsc"):
        restore_tensors(old, model, optimizer, average)
