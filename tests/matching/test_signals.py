from __future__ import annotations

import math

import pytest
import torch

from simsc.matching.coherence import shares_of
from simsc.matching.signals import ELSEWHERE, NEAR, RADII, SIGNALS, cycle_signal, distinctness, map_signals

NAMES = {name: place for place, name in enumerate(SIGNALS)}


def one(scores: torch.Tensor, at: tuple[float, float], temperature: float = 0.1) -> dict[str, float]:
    found = map_signals(scores[None, None], torch.tensor([[at]]), temperature)[0, 0].tolist()
    return dict(zip(SIGNALS, found, strict=False))


def test_a_flat_map_has_the_mass_of_its_near_cells_and_no_sharpness() -> None:
    side = 40
    signals = one(torch.zeros(side, side), (20.0, 20.0))
    radius = NEAR * side
    cells = sum(math.hypot(x - 20, y - 20) <= radius for x in range(side) for y in range(side))
    share = cells / side**2
    assert signals["mass"] == pytest.approx(math.log(share / (1 - share)), abs=1e-4)
    assert signals["margin"] == pytest.approx(0)
    assert signals["sharpness"] == pytest.approx(0, abs=1e-5)


def test_two_equal_peaks_halve_the_mass_and_leave_no_margin() -> None:
    scores = torch.zeros(30, 30)
    scores[5, 5] = scores[25, 20] = 40.0
    signals = one(scores, (5.0, 5.0), 0.02)
    assert signals["mass"] == pytest.approx(0, abs=1e-3)
    assert signals["margin"] == pytest.approx(0)
    assert signals["similarity"] == pytest.approx(0.8)
    assert signals["sharpness"] == pytest.approx(1 - math.log(2) / math.log(900), abs=1e-3)


def test_a_match_away_from_the_best_cell_has_a_negative_margin() -> None:
    scores = torch.zeros(30, 30)
    scores[5, 5] = 8.0
    assert one(scores, (20.0, 20.0))["margin"] == pytest.approx(-8)


def test_signals_compare_across_grids() -> None:
    coarse = torch.zeros(20, 20)
    coarse[4, 6] = 9.0
    fine = coarse.repeat_interleave(2, 0).repeat_interleave(2, 1) - math.log(4)
    a, b = one(coarse, (6.0, 4.0)), one(fine, (12.5, 8.5))
    assert a["margin"] == pytest.approx(b["margin"])
    assert a["mass"] == pytest.approx(b["mass"], abs=0.05)


def test_temperatures_are_those_of_each_pair() -> None:
    scores = torch.full((2, 1, 4, 4), 5.0)
    found = map_signals(scores, torch.zeros(2, 1, 2), torch.tensor([0.1, 0.02]))
    assert found[:, 0, NAMES["similarity"]].tolist() == pytest.approx([0.5, 0.1])


def test_a_closed_cycle_counts_most_and_a_wide_one_little() -> None:
    errors = torch.tensor([0.0, 1.0, 10.0, 300.0])
    signal = cycle_signal(errors, side=300.0)
    assert (signal.diff() < 0).all()
    assert torch.isfinite(signal).all()
    torch.testing.assert_close(cycle_signal(errors / 3, side=100.0), signal)


def test_a_point_is_distinct_where_nothing_else_in_its_image_is_like_it() -> None:
    size = (6, 10)
    likeness = torch.zeros(2, *size)
    likeness[0, 2, 2], likeness[0, 2, 3], likeness[0, 2, 9] = 1.0, 0.9, 0.4  # itself, a neighbour, another place
    likeness[1, 5, 5] = 1.0
    points = shares_of(torch.tensor([[2.0, 2.0], [5.0, 5.0]]), size)
    assert distinctness(likeness.flatten(1), points, size).flatten().tolist() == pytest.approx([0.6, 0.6, 1.0, 1.0])
    assert ELSEWHERE == (0.1, 0.2)
    for column, expected in ((2, [0.6, 0.6]), (4, [0.3, 0.6]), (5, [0.3, 0.3])):
        likeness[0, 2, 3:9] = 0.0
        likeness[0, 2, column] = 0.7
        points = shares_of(torch.tensor([[2.1, 2.0], [5.0, 5.0]]), size)
        assert distinctness(likeness.flatten(1), points, size)[0].tolist() == pytest.approx(expected)


def test_further_masses_are_those_of_their_radii() -> None:
    scores = torch.zeros(1, 1, 40, 40)
    found = torch.tensor([[[20.0, 20.0]]])
    own, further = map_signals(scores, found, 1.0), map_signals(scores, found, 1.0, further=True)
    torch.testing.assert_close(further[..., :4], own)
    rows, columns = torch.meshgrid(torch.arange(40), torch.arange(40), indexing="ij")
    for radius, signal in zip(RADII, further[0, 0, 4:], strict=True):
        inside = ((rows - 20) ** 2 + (columns - 20) ** 2 <= (40 * radius) ** 2).float().mean()
        assert signal.item() == pytest.approx(torch.logit(inside).item(), rel=1e-4)
