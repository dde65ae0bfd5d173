"""Localisers: closed forms, bounds, gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.errors import ConfigError
from simsc.matching import LOCALIZERS
from simsc.matching.localize import argmax, kernel_soft_argmax, localize, peak_probability, window_soft_argmax

SOFT = [name for name in LOCALIZERS if name != "argmax"]


def slow_kernel_soft_argmax(scores: list[list[float]], beta: float, sigma: float) -> tuple[float, float]:
    """The formula cell by cell, in plain Python."""
    cells = [(value, x, y) for y, row in enumerate(scores) for x, value in enumerate(row)]
    _, px, py = max(cells, key=lambda cell: cell[0])
    gauss = [math.exp(-((x - px) ** 2 + (y - py) ** 2) / (2 * sigma**2)) for _, x, y in cells]
    weights = [math.exp(value * g / beta) for (value, _, _), g in zip(cells, gauss, strict=True)]
    total = sum(weights)
    x = sum(w * x for w, (_, x, _) in zip(weights, cells, strict=True)) / total
    y = sum(w * y for w, (_, _, y) in zip(weights, cells, strict=True)) / total
    return x, y


@pytest.mark.parametrize(("height", "width"), [(4, 4), (3, 6), (5, 1)])
@pytest.mark.parametrize("beta", [1.0, 0.1])
def test_kernel_soft_argmax_equals_the_formula(height, width, beta):
    scores = torch.randn(2, 3, height, width, dtype=torch.float64)
    fast = kernel_soft_argmax(scores, beta, sigma=2.0)
    for b in range(2):
        for n in range(3):
            assert fast[b, n].tolist() == pytest.approx(slow_kernel_soft_argmax(scores[b, n].tolist(), beta, 2.0))


def test_the_usual_kernel_has_a_standard_deviation_of_seven_cells():
    scores = torch.rand(1, 2, 16, 16, dtype=torch.float64) * 5
    for n in range(2):
        expected = slow_kernel_soft_argmax(scores[0, n].tolist(), 1.0, 7.0)
        assert localize(scores)[0, n].tolist() == pytest.approx(expected)
        assert slow_kernel_soft_argmax(scores[0, n].tolist(), 1.0, 5.0) != pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("name", list(LOCALIZERS))
def test_sharp_scores_are_found_exactly_by_all(name):
    scores = torch.rand(2, 3, 6, 9)
    scores[:, :, 4, 7] = 100.0
    assert localize(scores, name, beta=0.05).tolist() == [[[7.0, 4.0]] * 3] * 2


@pytest.mark.parametrize("name", SOFT)
def test_a_symmetric_blob_has_its_centre_as_result(name):
    y, x = torch.meshgrid(torch.arange(9.0), torch.arange(9.0), indexing="ij")
    scores = torch.exp(-((x - 4) ** 2 + (y - 4) ** 2) / 4)[None, None]
    torch.testing.assert_close(localize(scores, name), torch.tensor([[[4.0, 4.0]]]))


def test_kernel_suppresses_a_second_peak_that_soft_argmax_averages_in():
    scores = torch.zeros(1, 1, 1, 33)
    scores[..., 2], scores[..., 30] = 20.0, 19.9
    assert localize(scores, "soft-argmax")[0, 0, 0].item() > 10
    assert localize(scores, "kernel-soft-argmax")[0, 0, 0].item() == pytest.approx(2, abs=0.1)


def test_window_sees_nothing_outside():
    scores = torch.zeros(1, 1, 7, 7)
    scores[..., 3, 3] = 1.0
    moved = scores.clone()
    moved[..., 0, 0] = 0.9
    assert torch.equal(window_soft_argmax(scores, window=3), window_soft_argmax(moved, window=3))


@pytest.mark.parametrize("size", [(6, 9), (2, 7), (1, 1)])
def test_a_window_is_the_softmax_of_the_cells_around_the_best_one_that_the_map_has(size):
    scores = torch.randn(2, 20, *size, dtype=torch.float64)
    rows, columns = torch.meshgrid(*map(torch.arange, size), indexing="ij")
    for score, found in zip(scores.flatten(0, 1), window_soft_argmax(scores, beta=0.5).flatten(0, 1), strict=True):
        row, column = divmod(int(score.argmax()), size[1])
        outside = ((rows - row).abs() > 2) | ((columns - column).abs() > 2)
        probability = (score / 0.5).masked_fill(outside, float("-inf")).flatten().softmax(0).view(size)
        expected = torch.stack([(probability * columns).sum(), (probability * rows).sum()])
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", SOFT)
def test_gradients(name):
    torch.manual_seed(0)
    scores = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: localize(s, name, beta=0.5), scores)


@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 1000), height=st.integers(1, 8), width=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_results_stay_inside_the_map(seed, scale, height, width):
    scores = torch.randn(1, 2, height, width, generator=torch.Generator().manual_seed(seed)) * scale
    for name in LOCALIZERS:
        found = localize(scores, name)
        assert (found >= -1e-4).all()
        assert (found <= torch.tensor([width - 1, height - 1]) + 1e-4).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", list(LOCALIZERS))
def test_half_precision_is_localised_in_float(name, dtype):
    scores = (torch.randn(1, 2, 6, 6) * 1000).to(dtype)
    found = localize(scores, name, beta=0.001)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, argmax(scores), atol=0.01, rtol=0)


def test_unknown_localizer_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'soft-argmax'"):
        localize(torch.zeros(1, 1, 2, 2), "softargmax")


@given(seed=st.integers(0, 10_000), scale=st.floats(0, 1e8), height=st.integers(1, 8), width=st.integers(1, 8))
@settings(max_examples=50, deadline=None)
def test_peak_probability_is_between_uniform_and_certain(seed, scale, height, width):
    scores = torch.randn(1, 3, height, width, generator=torch.Generator().manual_seed(seed)) * scale + scale
    peak = peak_probability(scores)
    assert (peak >= 1 / (height * width) * (1 - 1e-6)).all()
    assert (peak <= 1).all()


def test_peak_probability_is_the_maximum_of_the_softmax():
    scores = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    expected = (scores / 0.2).flatten(2).softmax(dim=2).amax(dim=2)
    torch.testing.assert_close(peak_probability(scores, beta=0.2), expected)


def test_equal_large_scores_are_uniform():
    assert peak_probability(torch.full((1, 1, 16, 16), 3e7)).item() == pytest.approx(1 / 256)


def test_peak_probability_gradient():
    scores = torch.randn(1, 2, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(peak_probability, scores)
