"""Hough voting, optimal transport, and the heads made of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simsc.errors import ConfigError
from simsc.models.heads.hpf import HPF, hough_matching, hough_votes, relative_to_best, smooth
from simsc.models.heads.scot import SCOT, sinkhorn


def test_votes_of_a_translation_fall_into_one_bin():
    scores = torch.zeros(1, 3, 4, 5, 6)
    for y in range(3):
        for x in range(4):
            scores[0, y, x, y + 2, x + 1] = 1.0
    votes = hough_votes(scores)
    assert votes.shape == (1, 7, 9)
    assert votes[0, 2 + 2, 1 + 3] == 12
    assert votes.sum() == 12


@given(st.integers(0, 1000))
def test_votes_keep_the_sum_and_mirror_when_the_images_are_swapped(seed):
    scores = torch.rand(2, 2, 3, 4, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    votes = hough_votes(scores)
    torch.testing.assert_close(votes.sum(dim=(1, 2)), scores.flatten(1).sum(dim=1))
    torch.testing.assert_close(hough_votes(scores.permute(0, 3, 4, 1, 2)), votes.flip(1, 2))


def test_voting_resolves_a_tie_in_favour_of_the_common_offset():
    scores = torch.eye(16).reshape(1, 4, 4, 4, 4)
    scores[0, 1, 1, 3, 0] = 1.0  # as good as staying in place, but nobody else moves that way
    matched = hough_matching(scores, sigma=0.5)
    assert matched[0, 1, 1, 1, 1] == 1
    assert matched[0, 1, 1, 3, 0] < 0.1


def test_smoothing_a_single_vote_gives_a_gaussian():
    votes = torch.zeros(1, 9, 9, dtype=torch.float64)
    votes[0, 4, 4] = 1.0
    result = smooth(votes, sigma=1.0)
    assert result.sum() == pytest.approx(1.0)
    assert (result[0, 4, 5] / result[0, 4, 4]).item() == pytest.approx(torch.exp(torch.tensor(-0.5)).item())
    torch.testing.assert_close(result[0], result[0].T)


def test_voting_gradients():
    scores = torch.rand(1, 2, 2, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda values: hough_matching(values, 0.7), scores)


@given(st.integers(0, 1000), st.sampled_from([1e-3, 0.05, 10.0]))
def test_a_plan_has_uniform_columns_and_stays_finite(seed, epsilon):
    cost = torch.rand(2, 4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    plan = sinkhorn(cost, epsilon, iterations=10)
    assert torch.isfinite(plan).all()
    torch.testing.assert_close(plan.sum(dim=1), torch.full((2, 6), 1 / 6, dtype=torch.float64))


def test_a_converged_plan_has_uniform_rows_too_and_great_entropy_makes_it_flat():
    cost = torch.rand(1, 4, 6, dtype=torch.float64)
    plan = sinkhorn(cost, epsilon=0.2, iterations=500)
    torch.testing.assert_close(plan.sum(dim=2), torch.full((1, 4), 1 / 4, dtype=torch.float64))
    flat = sinkhorn(cost, epsilon=1e6, iterations=5)
    torch.testing.assert_close(flat, torch.full_like(flat, 1 / 24), rtol=1e-4, atol=0)


def test_a_plan_shares_out_what_similarity_alone_would_give_to_one_cell():
    """Both cells like target 0 best, but the first likes it more: transport gives the second its other choice."""
    cost = 1 - torch.tensor([[[0.9, 0.1], [0.8, 0.7]]])
    assert sinkhorn(cost, epsilon=0.05, iterations=50)[0].argmax(dim=1).tolist() == [0, 1]


def test_transport_gradients():
    cost = torch.rand(1, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda values: sinkhorn(values, 0.3, 3), cost)


@pytest.mark.parametrize("kind", [HPF, SCOT])
def test_an_image_matches_itself_in_place(tiny, features, kind):
    head = kind(tiny("resnet"), layers=(2, 3))
    image = features(head, (4, 6))
    best = head.scorer(image, image).tensor.flatten(3).argmax(dim=3)
    assert torch.equal(best[0], torch.arange(24).reshape(4, 6))


@pytest.mark.parametrize("kind", [HPF, SCOT])
def test_scores_are_relative_to_the_best_and_divided_by_the_temperature(tiny, features, kind):
    head = kind(tiny("resnet"))
    scores = head.scorer(features(head, (3, 4), 1), features(head, (2, 5), 2)).tensor
    torch.testing.assert_close(scores.amax(dim=(3, 4)), torch.full((2, 3, 4), 4.0, dtype=torch.float64))
    assert (scores >= 0).all()
    assert not list(head.parameters())


def test_hyperpixels_hold_every_level(tiny, features):
    head = HPF(tiny("resnet"), layers=(0, 3))
    image = features(head, (4, 6))
    assert head.hyperpixels(image).shape == (2, 8 + 32 + 64, 4, 6)


def test_relative_to_best_of_nothing_is_nothing():
    assert not relative_to_best(torch.zeros(1, 1, 2, 2, 2)).any()


@pytest.mark.parametrize(("kind", "options"), [(HPF, {"sigma": 0.0}), (SCOT, {"epsilon": 0.0})])
def test_refuses_options_that_are_not_positive(tiny, kind, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        kind(tiny("resnet"), **options)
