"""Neighbouring matches say where a point should lie: against closed forms and a slow, obvious implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simsc.matcher import Matcher
from simsc.matching import coherence
from simsc.matching.coherence import (
    Expected,
    Polls,
    Votes,
    cast_votes,
    cell_shares,
    compare,
    compare_all,
    expect,
    expect_all,
    penalty,
    shares_of,
)
from simsc.matching.features import Features, coarse_units
from simsc.matching.localize import localize
from simsc.matching.signals import FURTHER_SIGNALS, SIGNALS
from simsc.models.model import SimSC
from simsc.models.trained import Trained


def voting(target: torch.Tensor, weight: torch.Tensor | None = None, side: int = 22) -> Votes:
    here = cell_shares((side, side), target)
    return Votes(here, target, torch.ones(len(here)) if weight is None else weight)


def test_a_map_that_all_votes_follow_is_found() -> None:
    here = cell_shares((22, 22), torch.zeros(1))
    slope, offset = torch.tensor([[0.9, 0.05], [-0.1, 1.1]]), torch.tensor([0.07, -0.03])
    points = torch.tensor([[0.3, 0.4], [0.5, 0.5], [0.72, 0.61]])
    found = expect(voting(here @ slope + offset), points)
    torch.testing.assert_close(found.place, points @ slope + offset, atol=2e-3, rtol=0)  # a stiff map bends a little
    assert found.share.min() > 0.99
    assert found.width.max() < 0.01


def test_outliers_lose_their_say() -> None:
    here = cell_shares((22, 22), torch.zeros(1))
    target = here + 0.1
    wrong = torch.rand(len(here), generator=torch.Generator().manual_seed(0)) < 0.3
    target[wrong] = torch.rand(int(wrong.sum()), 2, generator=torch.Generator().manual_seed(1))
    found = expect(voting(target), torch.tensor([[0.4, 0.4], [0.6, 0.3]]))
    torch.testing.assert_close(found.place, torch.tensor([[0.5, 0.5], [0.7, 0.4]]), atol=0.015, rtol=0)
    assert found.share.max() < 0.9


def slow_expect(votes: Votes, point: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Weighted least squares by NumPy, one point, re-weighted as often."""
    here, shift = votes.source.double().numpy(), (votes.target - votes.source).double().numpy()
    asked = np.exp(-((here - point) ** 2).sum(axis=1) / (2 * coherence.REACH**2)) * votes.weight.double().numpy()
    say = asked
    pull = math.sqrt(coherence.STIFFNESS) * coherence.REACH
    for _ in range(4):
        root = np.sqrt(say)[:, None]
        design = np.vstack([np.column_stack([here - point, np.ones(len(here))]) * root, [[pull, 0, 0], [0, pull, 0]]])
        solved, *_ = np.linalg.lstsq(design, np.vstack([shift * root, np.zeros((2, 2))]), rcond=None)
        distance = ((np.column_stack([here - point, np.ones(len(here))]) @ solved - shift) ** 2).sum(axis=1)
        say = asked / (1 + distance / coherence.OUTLIER**2)
    return point + solved[2], math.sqrt((say * distance).sum() / say.sum()), say.sum() / asked.sum()


@given(seed=st.integers(0, 1000), noise=st.floats(0.0, 0.3))
def test_sums_and_closed_forms_are_those_of_least_squares(seed: int, noise: float) -> None:
    random = torch.Generator().manual_seed(seed)
    here = cell_shares((9, 12), torch.zeros(1))
    weight = torch.rand(len(here), generator=random) + 0.01
    votes = Votes(here, here * 0.8 + noise * torch.randn(len(here), 2, generator=random), weight)
    points = torch.rand(3, 2, generator=random)
    found = expect(votes, points)
    for index, point in enumerate(points):
        place, width, share = slow_expect(votes, point.double().numpy())
        np.testing.assert_allclose(found.place[index], place, atol=2e-4)
        np.testing.assert_allclose(found.width[index], width, atol=2e-4)
        np.testing.assert_allclose(found.share[index], share, rtol=2e-3)


def test_the_penalty_is_none_at_the_expected_place_and_bounded_far_away() -> None:
    places, shares = torch.tensor([[0.5 / 40, 0.5 / 40]] * 2), torch.tensor([1.0, 0.5])
    expected = Expected(places, torch.zeros(2), shares, shares, shares)
    lowered = penalty(expected, (30, 40))
    assert lowered.shape == (2, 30, 40)
    assert lowered[:, 0, 0].tolist() == [0.0, 0.0]
    for share, row in zip((1.0, 0.5), lowered, strict=True):
        doubt = coherence.DOUBT / share**3
        assert float(row.min()) == pytest.approx(math.log(doubt / (1 + doubt)), rel=1e-3)
        one = math.exp(-((4 / 40) ** 2) / (2 * coherence.SLACK**2))
        assert float(row[0, 4]) == pytest.approx(math.log((one + doubt) / (1 + doubt)), rel=1e-4)
        torch.testing.assert_close(row[0, :30], row[:, 0])


def test_nobody_agrees_with_nobody() -> None:
    """Votes of no weight at all leave a finite answer."""
    found = expect(voting(torch.zeros(484, 2), torch.zeros(484)), torch.tensor([[0.5, 0.5]]))
    assert all(bool(part.isfinite().all()) for part in found)
    assert penalty(found, (5, 7)).isfinite().all()


def test_votes_stand_at_the_centres_of_cells_of_any_size() -> None:
    maps = torch.randn(1, 8, 37, 50, generator=torch.Generator().manual_seed(0))
    (units,) = coarse_units(maps)
    assert units.shape == (8, 10, 13)
    votes = cast_votes(compare(units, units, 0.005))
    torch.testing.assert_close(votes.source, votes.target, atol=1e-3, rtol=0)
    corner = shares_of(torch.tensor([-0.5, -0.5]), (37, 50))
    assert corner.tolist() == [0.0, 0.0]


def random_units(height: int, width: int, seed: int) -> torch.Tensor:
    return coarse_units(torch.randn(1, 8, height, width, generator=torch.Generator().manual_seed(seed)))[0]


def test_one_comparison_holds_the_votes_of_both_images() -> None:
    first, second = random_units(6, 9, 0), random_units(7, 5, 1)
    ballot = compare(first, second, 0.1)
    for votes, other in ((ballot, (first, second)), (ballot.turned(), (second, first))):
        for part, expected in zip(cast_votes(votes), cast_votes(compare(*other, 0.1)), strict=True):
            torch.testing.assert_close(part, expected)


def test_a_vote_is_the_mean_around_the_best_cell_and_weighs_less_where_it_does_not_lead_back() -> None:
    first, second = random_units(6, 9, 0), random_units(7, 5, 1)
    votes = cast_votes(compare(first, second, 0.1))
    scores = torch.einsum("chw,cij->hwij", first, second).flatten(0, 1) / 0.1
    back = scores.flatten(1).argmax(dim=0)
    for index, (score, place, weight) in enumerate(zip(scores, votes.target, votes.weight, strict=True)):
        torch.testing.assert_close(place, (localize(score[None, None], "window-soft-argmax")[0, 0] + 0.5) / 7)
        apart = (votes.source[back[score.argmax()]] - votes.source[index]).norm()
        torch.testing.assert_close(weight, score.flatten().softmax(0).max() * torch.exp(-apart / coherence.CLOSING))


def two_faced(coherent: bool) -> torch.Tensor:
    """Scores of a point that looks the same at two places, among neighbours that do not."""
    maps = torch.randn(1, 32, 20, 20, generator=torch.Generator().manual_seed(0))
    target = maps.clone()
    target[..., 3, 3] = 1.02 * maps[..., 10, 10]
    target[..., 10, 10] = maps[..., 10, 10] + 0.1 * maps[..., 0, 0]
    image, other = (Features(each, torch.full((1, 1, 1), 0.2), (20, 20)) for each in (maps, target))
    units = [each.maps / each.maps.norm(dim=1, keepdim=True) for each in (image, other)]

    def scores(points: torch.Tensor) -> torch.Tensor:
        query = units[0][:, :, points[0, 0, 1].long(), points[0, 0, 0].long()]
        return torch.einsum("bc,bchw->bhw", query, units[1])[:, None] / 0.04

    ballot = compare_all(image, other)
    maps_of = coherence.Coherent(scores, ballot, (image.map_size, other.map_size)) if coherent else scores
    return maps_of(torch.tensor([[[10.0, 10.0]]]))[0, 0]


def test_neighbours_decide_between_two_places() -> None:
    assert divmod(int(two_faced(coherent=False).argmax()), 20) == (3, 3)
    assert divmod(int(two_faced(coherent=True).argmax()), 20) == (10, 10)


def test_a_card_decides_and_others_with_the_same_network_keep_their_own(color_model: SimSC, mosaic) -> None:
    plain = Trained.of(color_model)
    heeding = plain.described(coherent=True)
    assert (plain.network.head.coherent, heeding.network.head.coherent) == (False, True)
    assert heeding.network.backbone is plain.network.backbone
    assert Trained.of(heeding.network).card.coherent
    assert Matcher(heeding, coherent=False).model.head.coherent is False
    result = Matcher(color_model, coherent=True, device="cpu").match(mosaic(), mosaic(), [[40.0, 72.0]])
    np.testing.assert_allclose(result.points, [[40.0, 72.0]], atol=8)


def test_all_doors_of_a_head_give_the_same_scores(color_model: SimSC, mosaic) -> None:
    model = Trained.of(color_model).described(coherent=True).network
    images = [torch.from_numpy(mosaic(seed=seed)).permute(2, 0, 1)[None].float() / 255 for seed in (0, 1, 0)]
    first, second, target = (model.encode(image) for image in images)
    cells = torch.tensor([[2.0, 3.0], [7.5, 8.25]])
    asked = [*model.head.read(first, [cells, cells[:1]]), *model.head.read(second, [cells])]
    together = model.head.score(asked, target)[0]
    alone = [model.scorer(one, target)(cells[None])[0] for one in (first, second)]
    there, back = (scores(cells[None])[0] for scores in model.head.scorers(first, target))
    torch.testing.assert_close(there, alone[0])
    torch.testing.assert_close(back, model.scorer(target, first)(cells[None])[0], atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(together, torch.cat([alone[0], alone[0][:1], alone[1]]), atol=1e-3, rtol=1e-4)
    raw = Trained.of(color_model).network.scorer(first, target)(cells[None])[0]
    assert (alone[0] <= raw + 1e-3).all()
    assert (alone[0] < raw - 0.1).any()


@pytest.mark.parametrize("coherent", [False, True])
def test_a_match_has_all_signals_that_are_named(color_model: SimSC, mosaic, coherent: bool) -> None:
    result = Matcher(color_model, coherent=coherent, device="cpu").match(mosaic(), mosaic(), [[40.0, 72.0]])
    assert result.signals.shape == (1, len(SIGNALS) + coherent * len(FURTHER_SIGNALS))
    assert np.isfinite(result.signals).all()


def test_points_of_many_pairs_are_expected_as_one_by_one_whatever_their_number() -> None:
    random = torch.Generator().manual_seed(0)
    grids = [(6, 9), (7, 5), (6, 9), (6, 9)]
    units = [random_units(*grid, seed) for seed, grid in enumerate(grids)]
    votes = [cast_votes(compare(one, units[0], 0.1)) for one in units]
    points = [torch.rand(count, 2, generator=random) for count in (3, 20, 0, 16)]
    together = expect_all(votes, points)
    for parts in zip(together, *(expect(*each) for each in zip(votes, points, strict=True)), strict=True):
        torch.testing.assert_close(parts[0], torch.cat(parts[1:]))
    alone = expect_all(votes[3:], points[3:])  # in a computation with the first and the third before
    assert all(torch.equal(part, whole[23:]) for part, whole in zip(alone, together, strict=True))


def test_polls_of_many_pairs_are_those_of_each() -> None:
    units = {name: random_units(6, 9 - place % 2, place) for place, name in enumerate("abcd")}
    ways = [("a", "b"), ("b", "a"), ("c", "a"), ("d", "b"), ("a", "d")]
    heats = dict(zip(ways, (0.1, 0.1, 0.05, 0.2, 0.1), strict=True))
    asked = [(way, units[way[0]], units[way[1]], heat) for way, heat in heats.items()]
    polls = Polls(ways)
    for way, votes in zip(ways, polls.votes(asked), strict=True):
        expected = cast_votes(compare(units[way[0]], units[way[1]], heats[way]))
        for part, wanted in zip(votes, expected, strict=True):
            torch.testing.assert_close(part, wanted, atol=1e-5, rtol=1e-4)
    assert all(one is other for one, other in zip(polls.votes(asked), polls.votes(asked[:2]), strict=False))
