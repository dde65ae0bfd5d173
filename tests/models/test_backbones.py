from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from simsc.errors import ConfigError
from simsc.models.backbone import Backbone, build_backbone, from_spec
from simsc.models.folding import fold_batchnorm
from simsc.models.registry import find_backbone

TRANSFORMERS = ["vit", "dinov2", "dinov2-registers", "dinov3"]


def images(backbone, rows: int = 2, columns: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(2, 3, rows * backbone.stride, columns * backbone.stride, generator=generator)


def test_forward_is_the_same_wherever_the_cut_is(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    expected = backbone(batch)
    assert expected.shape == (2, backbone.channels, 2, 3)
    assert backbone.grid_size((batch.shape[2], batch.shape[3])) == (2, 3)
    for count in range(backbone.num_blocks + 2):
        backbone.tail_blocks = count
        torch.testing.assert_close(backbone(batch), expected)


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_training_mode_does_not_change_transformers(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    expected = backbone(batch)
    torch.testing.assert_close(backbone.train()(batch), expected)


def test_tail_leaves_the_cached_state_untouched(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    for folded in (backbone, fold_batchnorm(backbone)):
        for count in range(backbone.num_blocks + 2):
            folded.tail_blocks = count
            state = folded.trunk(batch)
            before = state.clone()
            folded.tail(state, batch.shape[2:])
            assert torch.equal(state, before)


def test_everything_in_the_tail_makes_the_trunk_the_identity(tiny, family: str) -> None:
    backbone = tiny(family)
    backbone.tail_blocks = backbone.num_blocks + 1
    batch = images(backbone)
    assert backbone.trunk(batch) is batch


def test_tail_modules_hold_exactly_the_parameters_the_tail_reads(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    for count in range(1, backbone.num_blocks + 2):
        backbone.tail_blocks = count
        backbone.zero_grad()
        with torch.no_grad():
            state = backbone.trunk(batch)
        backbone.tail(state, batch.shape[2:]).square().sum().backward()
        trained = {id(p) for module in backbone.tail_modules() for p in module.parameters()}
        assert {id(p) for p in backbone.parameters() if p.grad is not None} == trained
    assert trained == {id(p) for p in backbone.parameters()}
    backbone.tail_blocks = 0
    assert backbone.tail_modules() == []


def test_layers_agree_with_forward_and_with_each_other(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    last = backbone.num_blocks
    maps = backbone.layers(batch, [last, 0, 1, last])
    torch.testing.assert_close(maps[0], backbone(batch))
    torch.testing.assert_close(maps[3], maps[0])
    assert all(m.ndim == 4 and m.shape[0] == 2 for m in maps)
    torch.testing.assert_close(backbone.layers(batch, [1])[0], maps[2])


def test_channels_last_gives_the_same_map(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    expected = backbone(batch)
    fast = backbone.to(memory_format=torch.channels_last)
    torch.testing.assert_close(fast(batch.to(memory_format=torch.channels_last)), expected, rtol=1e-4, atol=1e-4)


def test_normalises_with_its_own_mean_and_std(tiny) -> None:
    backbone = tiny("resnet")
    constant = torch.tensor(backbone.spec.mean).view(1, 3, 1, 1).expand(1, 3, 32, 32)
    assert backbone.normalize(constant).abs().max() < 1e-6
    assert not {"mean", "std"} & set(backbone.state_dict())


def test_refuses_cuts_and_layers_that_do_not_exist(tiny, family: str) -> None:
    backbone = tiny(family)
    for count in (-1, backbone.num_blocks + 2):
        with pytest.raises(ConfigError, match=f"tail_blocks = {count} is not allowed"):
            backbone.tail_blocks = count
    with pytest.raises(ConfigError, match="has no layer 99"):
        backbone.layers(images(backbone), [99])
    with pytest.raises(ConfigError, match=r"images of shape \(B, 3, H, W\)"):
        backbone(torch.zeros(3, 32, 32))


def test_transformers_refuse_partial_patches_and_say_what_fits(tiny) -> None:
    backbone = tiny("dinov2")
    with pytest.raises(ConfigError, match=r"multiples of 14, not 30x45; resize to 28x42"):
        backbone(torch.zeros(1, 3, 30, 45))


@given(height=st.integers(1, 900), width=st.integers(1, 900))
@settings(max_examples=50, deadline=None)
def test_fit_size_is_the_nearest_allowed_size(height: int, width: int) -> None:
    backbone = dinov2_without_memory()
    for side, fit in zip((height, width), backbone.fit_size((height, width)), strict=True):
        assert fit % 14 == 0
        assert fit >= 14
        assert abs(fit - side) <= 7 or fit == 14
    backbone.check_size(backbone.fit_size((height, width)))


@functools.cache
def dinov2_without_memory() -> Backbone:
    with torch.device("meta"):
        return from_spec(find_backbone("dinov2-small"))


@pytest.mark.parametrize("size", [(33, 47), (64, 64), (50, 16)])
def test_resnet_takes_any_size(tiny, size: tuple[int, int]) -> None:
    backbone = tiny("resnet")
    assert backbone(torch.rand(1, 3, *size)).shape[2:] == backbone.grid_size(size)
    assert backbone.fit_size(size) == size


def test_resnet_stage(tiny) -> None:
    assert tiny("resnet").stage_blocks() == 3
    assert tiny("vit").stage_blocks() == 1


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


@pytest.mark.parametrize("family", ["resnet", "resnet-v1"])
def test_resnet_equals_a_plain_implementation(tiny, torchvision_names, family: str) -> None:
    backbone = tiny(family)
    weights = torchvision_names(backbone)
    batch = torch.rand(1, 3, 64, 80)
    expected = plain_resnet(backbone.normalize(batch), weights, (2, 1, 3), v1=family == "resnet-v1")
    torch.testing.assert_close(backbone(batch), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_transformer_equals_the_library_at_native_size(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone, 4, 4)
    output = backbone.network(backbone.normalize(batch))
    if family == "vit":
        expected = output.last_hidden_state[:, 1:].transpose(1, 2).reshape(2, 32, 4, 4)
    else:
        expected = output.feature_maps[-1]
    torch.testing.assert_close(backbone(batch), expected)


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_final_norm_can_be_switched_off(tiny, family: str) -> None:
    backbone = tiny(family)
    plain = tiny(family, final_norm=False)
    batch = images(backbone)
    tokens = plain(batch).flatten(2).transpose(1, 2)
    torch.testing.assert_close(backbone.norm(tokens).transpose(1, 2).unflatten(2, (2, 3)), backbone(batch))
    plain.tail_blocks = 1
    assert plain.norm not in plain.tail_modules()


def test_gradients_reach_the_images_through_any_cut(tiny, family: str) -> None:
    backbone = tiny(family)
    backbone.tail_blocks = 1
    batch = images(backbone).requires_grad_()
    backbone(batch).sum().backward()
    assert batch.grad is not None
    assert batch.grad.abs().sum() > 0


@pytest.mark.parametrize("family", ["resnet", "resnet-v1"])
def test_folding_keeps_the_function_and_the_original(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    expected = backbone(batch)
    folded = fold_batchnorm(backbone)
    assert not [m for m in folded.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    scale = float(expected.detach().abs().max())
    torch.testing.assert_close(folded(batch) / scale, expected / scale, rtol=0, atol=1e-5)
    assert torch.equal(backbone(batch), expected)


def test_seed_makes_random_weights_repeatable_and_leaves_the_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = (build_backbone("resnet50", "random", seed=seed) for seed in (3, 3))
    assert torch.equal(torch.rand(1), expected)
    other = build_backbone("resnet50", None, seed=4)
    key = "network.encoder.stages.2.layers.5.layer.0.convolution.weight"
    assert torch.equal(first.state_dict()[key], second.state_dict()[key])
    assert not torch.equal(first.state_dict()[key], other.state_dict()[key])
    assert not first.training
    assert first.stage_blocks() == 6
    assert first.num_blocks == 13
