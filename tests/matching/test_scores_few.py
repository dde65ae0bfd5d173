"""Few queries read only the cells around them; the result is that of normalising the whole map."""

from __future__ import annotations

import pytest
import torch

from simsc.matching.scores import query_scores


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("beta_shape", [(2, 1, 1), (2, 12, 10)])
def test_few_queries_score_as_many_do(normalize: bool, beta_shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randn(2, 2, 8, 12, 10, generator=generator)
    beta = 0.1 + torch.rand(beta_shape, generator=generator)
    points = torch.rand(2, 3, 2, generator=generator) * 14 - 2  # some beyond the border
    many = torch.cat([points, torch.zeros(2, 60, 2)], dim=1)
    with torch.no_grad():
        few = query_scores(source, target, points, beta, None, normalize=normalize)
        expected = query_scores(source, target, many, beta, None, normalize=normalize)[:, :3]
    torch.testing.assert_close(few, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("count", [3, 60])
@pytest.mark.parametrize("normalize", [True, False])
def test_the_layout_in_memory_does_not_matter(batch: int, count: int, normalize: bool) -> None:
    source, target = torch.randn(2, batch, 8, 12, 10)
    points = torch.rand(batch, count, 2) * 14 - 2
    rows = [maps.contiguous(memory_format=torch.channels_last) for maps in (source, target)]
    with torch.no_grad():
        expected = query_scores(source, target, points, normalize=normalize)
        torch.testing.assert_close(query_scores(*rows, points, normalize=normalize), expected, rtol=1e-4, atol=1e-5)
