from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.matching.scores import query_scores, shared_scores

MODES = ("normalize-then-sample", "sample-then-normalize")


@settings(max_examples=40, deadline=None)
@given(
    images=st.integers(1, 4),
    pairs=st.integers(1, 6),
    points=st.integers(1, 3),
    per_cell=st.booleans(),
    normalize=st.booleans(),
    query=st.sampled_from(MODES),
    seed=st.integers(0, 99),
)
def test_every_pair_has_the_scores_it_would_have_alone(
    images: int, pairs: int, points: int, per_cell: bool, normalize: bool, query: str, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    maps = torch.randn(images, 5, 3, 4, generator=random, dtype=torch.float64)
    beta = torch.rand(images, *((3, 4) if per_cell else (1, 1)), generator=random, dtype=torch.float64) + 0.1
    source, target = torch.randint(images, (2, pairs), generator=random)
    queries = torch.rand(pairs, points, 2, generator=random, dtype=torch.float64) * 5 - 1  # some lie outside
    together = shared_scores(maps, source, target, queries, beta, normalize=normalize, query=query)
    for index in range(pairs):
        a, b = source[index : index + 1], target[index : index + 1]
        alone = query_scores(
            maps[a], maps[b], queries[index : index + 1], beta[a], beta[b], normalize=normalize, query=query
        )
        torch.testing.assert_close(together[index : index + 1], alone)


@pytest.mark.parametrize("query", MODES)
def test_gradients(query: str) -> None:
    random = torch.Generator().manual_seed(0)
    maps = torch.randn(3, 2, 2, 3, generator=random, dtype=torch.float64, requires_grad=True)
    beta = (torch.rand(3, 1, 1, generator=random, dtype=torch.float64) + 0.5).requires_grad_()
    source, target = torch.tensor([0, 1, 2, 0]), torch.tensor([1, 0, 1, 2])
    points = torch.tensor([[[0.3, 0.6]], [[1.2, 0.1]], [[1.7, 0.9]], [[0.4, 0.4]]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda m, b: shared_scores(m, source, target, points, b, query=query), (maps, beta))


def test_half_precision_is_computed_in_float32() -> None:
    maps = torch.randn(2, 8, 3, 3, dtype=torch.bfloat16)
    pair = torch.tensor([0]), torch.tensor([1])
    points = torch.tensor([[[1.5, 0.5]]])
    scores = shared_scores(maps, *pair, points)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, shared_scores(maps.float(), *pair, points))
