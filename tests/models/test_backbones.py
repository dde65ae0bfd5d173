"""What holds for every backbone."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from simsc.coordinates import resize_points
from simsc.errors import ConfigError
from simsc.models.backbone import Backbone, build_backbone, from_spec, unset
from simsc.models.inference import fold_batchnorm
from simsc.models.model import SimSC
from simsc.models.specs import BackboneSpec, Source, find_backbone


def images(backbone, rows: int = 2, columns: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(2, 3, rows * backbone.stride, columns * backbone.stride, generator=generator)


def output(backbone: Backbone, batch: Tensor) -> Tensor:
    return backbone.layers(batch, [backbone.num_blocks])[0]


def cuts(backbone: Backbone) -> list[str]:
    return ["none", *(f"last-{count}" for count in range(1, backbone.num_blocks + 1)), "all"]


def cut(backbone: Backbone, trainable: str) -> SimSC:
    return SimSC(backbone, "fixed:0.05", trainable).eval()


def test_the_output_is_the_same_wherever_the_cut_is(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    expected = output(backbone, batch)
    assert expected.shape == (2, backbone.channels, 2, 3)
    assert backbone.grid_size((batch.shape[2], batch.shape[3])) == (2, 3)
    for trainable in cuts(backbone):
        torch.testing.assert_close(cut(backbone, trainable).encode(batch).maps, expected)


def test_the_tail_leaves_the_cached_state_untouched(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    for fold in (False, True):
        for trainable in cuts(backbone):
            model = cut(fold_batchnorm(backbone) if fold else backbone, trainable)
            (state,) = model.trunk(batch)
            before = state.clone()
            model.encode_state((state,), (batch.shape[2], batch.shape[3]))
            assert torch.equal(state, before)


def test_everything_in_the_tail_makes_the_trunk_the_identity(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    assert cut(backbone, "all").trunk(batch)[0] is batch


def test_tail_modules_hold_exactly_the_parameters_the_tail_reads(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    trained: set[int] = set()
    for trainable in cuts(backbone)[1:]:
        model = cut(backbone, trainable)
        trained = {id(p) for module in backbone.tail_modules() for p in module.parameters()}
        backbone.zero_grad()
        backbone.requires_grad_(True)
        state = model.trunk(batch)
        model.encode_state(state, (batch.shape[2], batch.shape[3])).maps.square().sum().backward()
        assert {id(p) for p in backbone.parameters() if p.grad is not None} == trained
    assert trained == {id(p) for p in backbone.parameters()}
    backbone.tail_blocks = 0
    assert backbone.tail_modules() == []


def test_layers_agree_with_each_other(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    last = backbone.num_blocks
    maps = backbone.layers(batch, [last, 0, 1, last])
    torch.testing.assert_close(maps[3], maps[0])
    assert all(m.ndim == 4 and m.shape[0] == 2 for m in maps)
    torch.testing.assert_close(backbone.layers(batch, [1])[0], maps[2])


def test_channels_last_gives_the_same_map(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone)
    expected = output(backbone, batch)
    fast = backbone.to(memory_format=torch.channels_last)
    found = output(fast, batch.to(memory_format=torch.channels_last))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


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
        backbone.layers(torch.zeros(3, 32, 32), [0])


@pytest.mark.parametrize(
    ("family", "sizes"), [("dinov2", "multiples of 14, not 30x45; resize to 28x42"), ("resnet", "16, not 30x45")]
)
def test_partial_cells_are_refused_with_what_fits(tiny, family: str, sizes: str) -> None:
    with pytest.raises(ConfigError, match=sizes):
        cut(tiny(family), "none").encode(torch.zeros(1, 3, 30, 45))


@given(height=st.integers(1, 900), width=st.integers(1, 900))
@settings(max_examples=50, deadline=None)
@pytest.mark.parametrize("name", ["dinov2-small", "resnet50"])
def test_fit_size_is_the_nearest_whole_number_of_cells(name: str, height: int, width: int) -> None:
    backbone = without_memory(name)
    fitted = backbone.fit_size((height, width))
    for side, fit in zip((height, width), fitted, strict=True):
        assert fit % backbone.stride == 0
        assert abs(fit - side) <= backbone.stride / 2 or fit == backbone.stride
    backbone.check_size(fitted)
    # Half-pixel exact: the centre of the first cell, and one cell on.
    centres = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    pixels = resize_points(centres, backbone.grid_size(fitted), fitted)
    assert torch.equal(pixels[0], torch.full((2,), backbone.stride / 2 - 0.5))
    assert torch.equal(pixels[1] - pixels[0], torch.full((2,), float(backbone.stride)))


@functools.cache
def without_memory(name: str) -> Backbone:
    return unset(find_backbone(name))


def test_gradients_reach_the_images_through_every_block(tiny, family: str) -> None:
    backbone = tiny(family)
    batch = images(backbone).requires_grad_()
    output(backbone, batch).sum().backward()
    assert batch.grad is not None
    assert batch.grad.abs().sum() > 0


def test_seed_makes_random_weights_repeatable_and_leaves_the_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = (build_backbone("resnet50", "random", seed=seed) for seed in (3, 3))
    assert torch.equal(torch.rand(1), expected)
    other = build_backbone("resnet50", None, seed=4)
    key = "layer3.5.conv1.weight"
    assert torch.equal(first.state_dict()[key], second.state_dict()[key])
    assert not torch.equal(first.state_dict()[key], other.state_dict()[key])
    assert not first.training
    assert first.stage_blocks() == 6
    assert first.num_blocks == 13


class WithConstant(Backbone):
    """Holds a constant that no file brings, as a network of another package may."""

    def __init__(self, spec: BackboneSpec) -> None:
        super().__init__(spec)
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("constant", torch.ones(1), persistent=False)

    def embed(self, images: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool2d(images, self.stride) * self.scale * self.constant

    def run_blocks(self, state: Tensor, start: int, stop: int, image_size: tuple[int, int]) -> Tensor:
        return state

    def to_map(self, state: Tensor, image_size: tuple[int, int], final: bool) -> Tensor:
        return state

    def tail_modules(self) -> list[torch.nn.Module]:
        return []

    def stage_blocks(self) -> int:
        return 0


class WithWeights(WithConstant):
    """Brings its weights along, and no constant."""

    def __init__(self, spec: BackboneSpec) -> None:
        super().__init__(spec)
        del self.constant


def test_a_network_without_memory_has_nothing_that_a_file_does_not_bring(tiny, family: str) -> None:
    assert all(value.is_meta for value in unset(tiny(family).spec).state_dict().values())
    for build in (WithConstant, WithWeights):
        spec = BackboneSpec("other", 3, 8, 0, "none", build, Source("a.pth") if build is WithConstant else None)
        assert not any(value.is_meta for value in (*unset(spec).parameters(), *unset(spec).buffers()))


def test_a_network_that_cannot_be_cut_learns_as_a_whole_or_not_at_all() -> None:
    backbone = from_spec(BackboneSpec("constant", 3, 8, 0, "none", WithConstant))
    for trainable in ("last-block", "last-1", "last-stage"):
        with pytest.raises(ConfigError, match=f"'{trainable}' is not allowed for constant.*allowed: none, all"):
            SimSC(backbone, "fixed:0.05", trainable)
    for trainable in ("none", "all"):
        SimSC(backbone, "fixed:0.05", trainable)
