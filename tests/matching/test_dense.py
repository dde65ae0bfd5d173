"""Dense matching: equal to the full tensor, whatever the chunks."""

from __future__ import annotations

import pytest
import torch

from simsc.matching.dense import MAX_BYTES, chunk_size, dense_match
from simsc.matching.features import Features
from simsc.matching.localize import localize, peak_probability
from simsc.matching.scores import query_scores, unit_features


def features(size: tuple[int, int], seed: int, batch: int = 2, per_cell: bool = False) -> Features:
    generator = torch.Generator().manual_seed(seed)
    beta = torch.rand(batch, *(size if per_cell else (1, 1)), generator=generator) * 0.3 + 0.1
    return Features(torch.randn(batch, 6, *size, generator=generator), beta, (size[0] * 16, size[1] * 16))


@pytest.mark.parametrize("max_bytes", [1, 5000, MAX_BYTES])
@pytest.mark.parametrize("per_cell", [False, True])
def test_equals_the_full_tensor_for_every_chunk_size(max_bytes, per_cell):
    source, target = features((3, 4), 0, per_cell=per_cell), features((5, 2), 1, per_cell=per_cell)
    unit = [unit_features(image.maps, image.beta).flatten(2) for image in (source, target)]
    full = (unit[0].transpose(1, 2) @ unit[1]).unflatten(2, (5, 2))
    match = dense_match(source, target, max_bytes=max_bytes)
    assert match.points.shape == (2, 3, 4, 2)
    torch.testing.assert_close(match.points, localize(full).unflatten(1, (3, 4)))
    torch.testing.assert_close(match.confidence, peak_probability(full).unflatten(1, (3, 4)))


def test_any_grid_localizer_temperature_and_score_function():
    source, target = features((3, 4), 0), features((5, 2), 1)
    grid = torch.rand(7, 5, 2) * 3
    asked = []

    def score_maps(points: torch.Tensor) -> torch.Tensor:
        asked.append(points.shape[1])
        return query_scores(source.maps, target.maps, points, normalize=False)

    budget = 2 * 4 * (4 * 10 + 2 * 6) * 8  # eight queries of both pairs
    match = dense_match(
        source, target, grid, score_maps=score_maps, localizer="soft-argmax", beta=0.5, max_bytes=budget
    )
    scores = query_scores(source.maps, target.maps, grid.reshape(1, 35, 2).expand(2, 35, 2), normalize=False)
    torch.testing.assert_close(match.points, localize(scores, "soft-argmax", 0.5).unflatten(1, (7, 5)))
    torch.testing.assert_close(match.confidence, peak_probability(scores, 0.5).unflatten(1, (7, 5)))
    assert asked == [8, 8, 8, 8, 3]


def test_one_grid_per_pair():
    source, target = features((3, 4), 0), features((3, 4), 1)
    grid = torch.rand(2, 1, 5, 2) * 2
    both = dense_match(source, target, grid)
    second = dense_match(source.select(slice(1, 2)), target.select(slice(1, 2)), grid[1:])
    torch.testing.assert_close(both.points[1:], second.points)


def test_keeps_no_graph():
    source, target = features((3, 4), 0), features((3, 4), 1)
    source.maps.requires_grad_()
    assert not dense_match(source, target).points.requires_grad


def test_budget_is_shared_by_the_batch_and_never_below_one_query():
    one, two = features((8, 8), 0, batch=1), features((8, 8), 0, batch=2)
    assert chunk_size(one, one, 2**20) == pytest.approx(2 * chunk_size(two, two, 2**20), abs=1)
    assert chunk_size(one, one, 0) == 1


def test_scores_of_a_chunk_stay_within_the_budget():
    image = Features(torch.empty(1, 1024, 64, 64, device="meta"), torch.ones(1, 1, 1), (1024, 1024))
    assert chunk_size(image, image) * 4 * 64 * 64 * 4 <= MAX_BYTES
