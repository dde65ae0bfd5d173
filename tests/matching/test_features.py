"""A batch of features: selecting, detaching, stacking."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from simsc.matching.features import COARSE, Features


def example(batch: int = 3, size: tuple[int, int] = (32, 48)) -> Features:
    return Features(torch.rand(batch, 4, 2, 3), torch.rand(batch, 1, 1), size, (torch.rand(batch, 2, 4, 6),))


def test_select_takes_maps_temperatures_and_layers_of_the_same_images():
    features = example()
    chosen = features.select(torch.tensor([2, 2, 0]))
    assert torch.equal(chosen.maps, features.maps[[2, 2, 0]])
    assert torch.equal(chosen.beta, features.beta[[2, 2, 0]])
    assert torch.equal(chosen.layers[0], features.layers[0][[2, 2, 0]])
    assert len(features.select(slice(1, 2))) == 1


def test_stack_undoes_select():
    features = example()
    again = Features.stack([features.select(slice(0, 1)), features.select(slice(1, 3))])
    assert torch.equal(again.maps, features.maps)
    assert torch.equal(again.layers[0], features.layers[0])
    assert again.map_size == (2, 3)


def test_stack_refuses_images_of_different_size():
    with pytest.raises(ValueError, match="32, 40"):
        Features.stack([example(), example(size=(32, 40))])


def test_temperature_is_one_number_per_image():
    features = Features(torch.rand(2, 4, 2, 2), torch.tensor([[[0.1, 0.3], [0.1, 0.3]], [[0.5] * 2] * 2]), (32, 32))
    torch.testing.assert_close(features.temperature, torch.tensor([0.2, 0.5]))


def test_detach_cuts_everything():
    features = Features(*(torch.rand(1, 1, 1, requires_grad=True),) * 2, (1, 1), (torch.rand(1, requires_grad=True),))
    cut = features.detach()
    assert not any(tensor.requires_grad for tensor in (cut.maps, cut.beta, *cut.layers))


@pytest.mark.parametrize("size", [(44, 44), (37, 50), (24, 9), (1, 30)])
def test_coarse_units_are_those_of_pooled_maps_however_these_lie_in_memory(size: tuple[int, int]) -> None:
    maps = torch.randn(2, 5, *size, generator=torch.Generator().manual_seed(0))
    factor = next(factor for factor in range(1, 9) if max(size) <= factor * COARSE)
    coarse = tuple(math.ceil(side / factor) for side in size)
    expected = F.normalize(F.adaptive_avg_pool2d(maps, coarse), dim=1)
    for layout in (torch.contiguous_format, torch.channels_last):
        laid = Features(maps.contiguous(memory_format=layout), torch.ones(2, 1, 1), (64, 64))
        torch.testing.assert_close(laid.coarse, expected)
        assert laid.coarse is laid.coarse


def test_memory_counts_the_coarse_grid_once_it_is_there() -> None:
    features = example()
    expected = 4 * (3 * 4 * 2 * 3 + 3 + 3 * 2 * 4 * 6)
    assert features.nbytes == expected
    assert features.coarse.nbytes == 4 * 3 * 4 * 2 * 3
    assert features.nbytes == expected + features.coarse.nbytes
