"""Mutual matching and the symmetric consensus."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from simsc.errors import ConfigError
from simsc.models.heads.ncnet import NCNet, mutual_matching


def scores(*sizes: int, seed: int = 0) -> Tensor:
    return torch.rand(1, *sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(0, 1000), st.floats(0.01, 100))
def test_mutual_matching_is_homogeneous_and_never_raises_a_score(seed, factor):
    values = scores(2, 3, 4, 2, seed=seed) + 1e-3
    matched = mutual_matching(values)
    assert (matched <= values).all()
    assert (matched >= 0).all()
    torch.testing.assert_close(mutual_matching(values * factor), matched * factor)


def test_exactly_the_mutual_nearest_neighbours_keep_their_score():
    values = scores(3, 3, 4, 2)
    flat = values.reshape(9, 8)
    best = (flat == flat.amax(0)) & (flat == flat.amax(1, keepdim=True))
    kept = mutual_matching(values).reshape(9, 8) >= flat * (1 - 1e-12)
    assert torch.equal(kept, best)


def test_mutual_matching_commutes_with_swapping_the_images_and_permuting_cells():
    values = scores(2, 3, 4, 2)
    swapped = mutual_matching(values.permute(0, 3, 4, 1, 2))
    torch.testing.assert_close(swapped, mutual_matching(values).permute(0, 3, 4, 1, 2))
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(mutual_matching(values[:, :, order]), mutual_matching(values)[:, :, order])


def test_mutual_matching_of_nothing_is_nothing_with_finite_gradients():
    nothing = torch.zeros(1, 2, 2, 2, 2, requires_grad=True)
    result = mutual_matching(nothing)
    result.sum().backward()
    assert not result.any()
    assert torch.isfinite(nothing.grad).all()


def test_mutual_matching_gradients():
    assert torch.autograd.gradcheck(mutual_matching, scores(2, 2, 2, 3).requires_grad_())


def test_swapping_the_images_transposes_the_refined_scores(tiny, features):
    head = NCNet(tiny("resnet"), channels=(3, 1)).double()
    a, b = features(head, (3, 4), seed=1), features(head, (5, 2), seed=2)
    forward, backward = head.scorer(a, b).tensor, head.scorer(b, a).tensor
    torch.testing.assert_close(forward, backward.permute(0, 3, 4, 1, 2))


def test_consensus_prefers_the_match_whose_neighbours_agree(tiny):
    """Two equal matches for one cell: the one on the diagonal of a consistent motion must win."""
    head = NCNet(tiny("resnet"), channels=(1,))
    with torch.no_grad():
        head.consensus[0].weight.fill_(1 / 81)
    values = torch.eye(25).reshape(1, 5, 5, 5, 5)  # every cell stays where it is
    values[0, 2, 2, 0, 4] = 1.0
    refined = head.symmetric_consensus(values)
    assert refined[0, 2, 2, 2, 2] > 2 * refined[0, 2, 2, 0, 4]


@pytest.mark.parametrize("options", [{"kernel": 2}, {"channels": (4, 2)}])
def test_refuses_kernels_and_channels_that_cannot_work(tiny, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        NCNet(tiny("resnet"), **options)
