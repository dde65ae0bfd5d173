"""PCK as pure functions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.errors import ConfigError
from simsc.evaluation.pck import ALPHAS, correct_points, threshold_base
from simsc.evaluation.pck import pck as share

ALL = torch.ones(1, 1, dtype=torch.bool)


def pck(predicted, truth, mask, base, alphas=ALPHAS):
    return share(correct_points(predicted, truth, mask, base, alphas), mask)


def test_threshold_bases_by_hand():
    points = torch.tensor([[[2.0, 3.0], [12.0, 7.0]], [[5.0, 0.0], [6.0, 40.0]]])
    mask = torch.ones(2, 2, dtype=torch.bool)
    assert threshold_base("kps", points=points, mask=mask).tolist() == [10.0, 40.0]
    sizes = torch.tensor([[100, 80], [60, 90]])
    assert threshold_base("img", points=points, mask=mask, image_size=sizes).tolist() == [100.0, 90.0]
    boxes = torch.tensor([[0.0, 0.0, 30.0, 20.0], [5.0, 5.0, 10.0, 25.0]])
    assert threshold_base("bbox", points=points, mask=mask, boxes=boxes).tolist() == [30.0, 20.0]


@given(junk=st.floats(-1e5, 1e5))
@settings(max_examples=20, deadline=None)
def test_padding_counts_neither_into_the_extent_nor_into_the_rate(junk):
    points = torch.tensor([[[2.0, 3.0], [12.0, 7.0], [junk, junk]]])
    mask = torch.tensor([[True, True, False]])
    base = threshold_base("kps", points=points, mask=mask)
    assert base.tolist() == [10.0]
    assert pck(points + 0.5, points, mask, base, [0.1]).tolist() == [[1.0]]
    assert pck(points + 5.0, points, mask, base, [0.1]).tolist() == [[0.0]]


def test_exactly_on_the_boundary_counts_unless_strict():
    truth, predicted = torch.zeros(1, 1, 2), torch.tensor([[[3.0, 4.0]]])
    base = torch.tensor([50.0])
    assert correct_points(predicted, truth, ALL, base, [0.1]).item() is True
    assert correct_points(predicted, truth, ALL, base, [0.1], strict=True).item() is False


def test_equals_a_plain_loop():
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(4, 6, 2, generator=generator) * 100
    predicted = truth + torch.randn(4, 6, 2, generator=generator) * 8
    mask = torch.rand(4, 6, generator=generator) > 0.3
    base = torch.tensor([100.0, 80.0, 60.0, 120.0])
    rates = pck(predicted, truth, mask, base)
    for b in range(4):
        for a, alpha in enumerate(ALPHAS):
            hits = [
                sum((p - t) ** 2 for p, t in zip(x, y, strict=True)) ** 0.5 <= alpha * base[b].item()
                for x, y, m in zip(predicted[b].tolist(), truth[b].tolist(), mask[b].tolist(), strict=True)
                if m
            ]
            assert rates[b, a].item() == pytest.approx(sum(hits) / len(hits))


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_monotone_in_alpha_and_between_zero_and_one(seed):
    generator = torch.Generator().manual_seed(seed)
    truth, predicted = torch.rand(2, 3, 5, 2, generator=generator)
    rates = pck(predicted, truth, torch.ones(3, 5, dtype=torch.bool), torch.ones(3), [0.01, 0.1, 0.3, 0.7, 1.5])
    assert (rates.diff(dim=1) >= 0).all()
    assert rates.min() >= 0
    assert (rates[:, -1] == 1).all()  # the unit square's diagonal is shorter than 1.5


def test_a_pair_without_points_has_no_rate():
    assert pck(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2), ~ALL, torch.ones(1), [0.1]).isnan().all()


def test_wrong_or_unsupported_thresholds_are_refused():
    points = torch.zeros(1, 1, 2)
    with pytest.raises(ConfigError, match="did you mean 'bbox'"):
        threshold_base("box", points=points, mask=ALL)
    with pytest.raises(ConfigError, match="'bbox' needs boxes"):
        threshold_base("bbox", points=points, mask=ALL)
    with pytest.raises(ConfigError, match="'img' needs image sizes"):
        threshold_base("img", points=points, mask=ALL)
