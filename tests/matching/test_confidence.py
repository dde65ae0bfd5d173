"""Confidence of a match."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.matching.confidence import cycle_confidence, cycle_error, peak_probability


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


def test_cycle_error_is_the_distance_and_confidence_falls_with_it():
    points = torch.zeros(1, 3, 2)
    returned = torch.tensor([[[0.0, 0.0], [3.0, 4.0], [30.0, 40.0]]])
    error = cycle_error(points, returned)
    assert error.tolist() == [[0.0, 5.0, 50.0]]
    confidence = cycle_confidence(error, scale=5.0)[0]
    assert confidence[0] == 1
    assert confidence[1].item() == pytest.approx(0.3679, abs=1e-4)
    assert 0 <= confidence[2] < 1e-6
