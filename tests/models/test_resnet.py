from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from simsc.models.backbone import Backbone
from simsc.models.inference import fold_batchnorm
from simsc.models.weights import fill

SIZES = [(64, 64), (64, 96), (48, 16)]
RESNETS = ["resnet", "resnet-v1"]


def output(backbone: Backbone, images: Tensor) -> Tensor:
    return backbone.layers(images, [backbone.num_blocks])[0]


def bottleneck(x: Tensor, w: dict[str, Tensor], stride: int, v1: bool) -> Tensor:
    """The residual block of the ResNet paper, in torchvision's names."""

    def bn(x: Tensor, name: str) -> Tensor:
        mean, var = w[f"{name}.running_mean"], w[f"{name}.running_var"]
        return F.batch_norm(x, mean, var, w[f"{name}.weight"], w[f"{name}.bias"])

    y = F.relu(bn(F.conv2d(x, w["conv1.weight"], stride=stride if v1 else 1), "bn1"))
    y = F.relu(bn(F.conv2d(y, w["conv2.weight"], stride=1 if v1 else stride, padding=1), "bn2"))
    y = bn(F.conv2d(y, w["conv3.weight"]), "bn3")
    if "downsample.0.weight" in w:
        x = bn(F.conv2d(x, w["downsample.0.weight"], stride=stride), "downsample.1")
    return F.relu(x + y)


def plain_resnet(x: Tensor, weights: dict[str, Tensor], depths: tuple[int, ...], v1: bool) -> Tensor:
    x = F.conv2d(x, weights["conv1.weight"], stride=2, padding=3)
    statistics = (weights[f"bn1.{name}"] for name in ("running_mean", "running_var", "weight", "bias"))
    x = F.max_pool2d(F.relu(F.batch_norm(x, *statistics)), 3, 2, 1)
    for stage, depth in enumerate(depths, start=1):
        for block in range(depth):
            prefix = f"layer{stage}.{block}."
            own = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
            x = bottleneck(x, own, 2 if stage > 1 and block == 0 else 1, v1)
    return x


@pytest.mark.parametrize("family", RESNETS)
def test_equals_a_plain_implementation(tiny: Callable[[str], Backbone], family: str) -> None:
    backbone = tiny(family)
    batch = torch.rand(1, 3, 64, 80)
    with torch.no_grad():
        expected = plain_resnet(backbone.normalize(batch), backbone.state_dict(), (2, 1, 3), v1=family == "resnet-v1")
        torch.testing.assert_close(output(backbone, batch), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", RESNETS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_equals_transformers(tiny: Callable[[str], Backbone], family: str, size: tuple[int, int]) -> None:
    torch.manual_seed(3)
    config = transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=(16, 32, 64),
        depths=(2, 1, 3),
        downsample_in_bottleneck=family == "resnet-v1",
    )
    theirs, ours = transformers.ResNetModel(config).eval(), tiny(family)
    for name, value in theirs.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand_like(value) + 0.1 if name.endswith("running_var") else torch.randn_like(value) / 4)
    fill(ours, theirs.state_dict(), "theirs")
    batch = torch.rand(2, 3, *size)
    with torch.no_grad():
        expected = theirs(ours.normalize(batch)).last_hidden_state
        assert torch.equal(output(ours, batch), expected)


def test_names_are_torchvisions(tiny: Callable[[str], Backbone]) -> None:
    names = list(tiny("resnet").state_dict())
    norms = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    expected = ["conv1.weight", *(f"bn1.{name}" for name in norms)]
    for stage, depth in ((1, 2), (2, 1), (3, 3)):
        for block in range(depth):
            place = f"layer{stage}.{block}"
            for number in (1, 2, 3):
                expected += [f"{place}.conv{number}.weight", *(f"{place}.bn{number}.{name}" for name in norms)]
            if block == 0:
                expected += [f"{place}.downsample.0.weight", *(f"{place}.downsample.1.{name}" for name in norms)]
    assert sorted(names) == sorted(expected)


def test_last_stage(tiny: Callable[[str], Backbone]) -> None:
    assert tiny("resnet").stage_blocks() == 3


@pytest.mark.parametrize("family", RESNETS)
def test_folding_keeps_the_function(tiny: Callable[[str], Backbone], family: str) -> None:
    backbone = tiny(family)
    batch = torch.rand(2, 3, 32, 48)
    with torch.no_grad():
        expected = output(backbone, batch)
        assert fold_batchnorm(backbone) is backbone
        assert not [m for m in backbone.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        scale = float(expected.abs().max())
        torch.testing.assert_close(output(backbone, batch) / scale, expected / scale, rtol=0, atol=1e-5)


@pytest.mark.parametrize("side", [64, 80])
def test_cells_are_exactly_one_stride_apart(tiny: Callable[[str], Backbone], side: int) -> None:
    """A picture moved by one stride moves the map by one cell, away from the border."""
    backbone = tiny("resnet")
    stride = backbone.stride
    picture = torch.zeros(1, 3, side + 16 * stride, side + 16 * stride)
    picture[..., 7 * stride : 9 * stride, 7 * stride : 9 * stride] = torch.rand(3, 2 * stride, 2 * stride)
    moved = picture.roll((stride, stride), dims=(2, 3))
    with torch.no_grad():
        before, after = output(backbone, picture), output(backbone, moved)
    inside = slice(5, 12)
    torch.testing.assert_close(after[..., 6:13, 6:13], before[..., inside, inside], rtol=1e-4, atol=1e-4)
