"""Query-first scores against the full correlation tensor, and their gradients."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from simsc.coordinates import resize_points
from simsc.errors import ConfigError
from simsc.matching.features import Features, neighbours, sample_map
from simsc.matching.scores import feature_scores, query_features, query_scorer, query_scores, unit_features

SIZES = [((3, 4), (3, 4)), ((5, 3), (2, 7)), ((1, 6), (4, 1))]


def slow_interpolate(grid: Tensor, x: float, y: float) -> Tensor:
    """Bilinear interpolation of ``(h, w, ...)`` written out, clamped to the outermost cell centres."""
    height, width = grid.shape[:2]
    x, y = min(max(x, 0), width - 1), min(max(y, 0), height - 1)
    x0, y0 = int(x), int(y)
    x1, y1 = min(x0 + 1, width - 1), min(y0 + 1, height - 1)
    top = (1 - (x - x0)) * grid[y0, x0] + (x - x0) * grid[y0, x1]
    bottom = (1 - (x - x0)) * grid[y1, x0] + (x - x0) * grid[y1, x1]
    return (1 - (y - y0)) * top + (y - y0) * bottom


def slow_scores(source: Tensor, target: Tensor, points: Tensor, source_beta: Tensor, target_beta: Tensor) -> Tensor:
    """The paper literally: all of C, cell by cell, then interpolated at each query."""
    (batch, _, ha, wa), (hb, wb) = source.shape, target.shape[-2:]
    result = source.new_zeros(batch, points.shape[1], hb, wb)
    for b in range(batch):
        full = source.new_zeros(ha, wa, hb, wb)
        for i, j, k, m in itertools.product(range(ha), range(wa), range(hb), range(wb)):
            u, v = source[b, :, i, j], target[b, :, k, m]
            cosine = u @ v / (u.norm() * v.norm())
            full[i, j, k, m] = cosine / (source_beta[b, i, j] * target_beta[b, k, m])
        for n in range(points.shape[1]):
            result[b, n] = slow_interpolate(full, *points[b, n].tolist())
    return result


def pair(sizes: tuple[tuple[int, int], tuple[int, int]], batch: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(batch, 5, *size, generator=generator, dtype=torch.float64) for size in sizes)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("convention", ["center", "corner"])
@pytest.mark.parametrize("per_cell", [False, True])
def test_equals_the_interpolated_full_tensor(sizes, convention, per_cell):
    source, target = pair(sizes)
    pixels = torch.tensor([[0.0, 0.0], [31.0, 47.0], [10.3, 20.9]], dtype=torch.float64).expand(2, 3, 2)
    points = resize_points(pixels, (48, 32), sizes[0], convention)
    shape = [(2, *size) if per_cell else (2, 1, 1) for size in sizes]
    betas = [torch.rand(s, dtype=torch.float64) * 0.9 + 0.1 for s in shape]
    fast = query_scores(source, target, points, *betas)
    slow = slow_scores(source, target, points, betas[0].expand(2, *sizes[0]), betas[1].expand(2, *sizes[1]))
    torch.testing.assert_close(fast, slow)


def test_sample_then_normalize_gives_unit_queries():
    source, _ = pair(SIZES[1])
    points = torch.tensor([[[0.4, 2.7], [1.0, 1.0]]], dtype=torch.float64).expand(2, 2, 2)
    query = query_features(source, points, query="sample-then-normalize")
    torch.testing.assert_close(query.norm(dim=-1), torch.ones(2, 2, dtype=torch.float64))
    raw = slow_interpolate(source[1].permute(1, 2, 0), 0.4, 2.7)
    torch.testing.assert_close(query[1, 0], raw / raw.norm())
    default = query_features(source, points)
    torch.testing.assert_close(query[:, 1], default[:, 1])  # the same at cell centres
    assert not torch.allclose(query[:, 0], default[:, 0])


def test_sample_then_normalize_divides_by_the_interpolated_temperature():
    source, target = pair(SIZES[0])
    beta = torch.rand(2, 3, 4, dtype=torch.float64) + 0.1
    points = torch.tensor([[[1.5, 0.0]]], dtype=torch.float64).expand(2, 1, 2)
    plain = query_scores(source, target, points, query="sample-then-normalize")
    scaled = query_scores(source, target, points, beta, query="sample-then-normalize")
    between = (beta[:, 0, 1] + beta[:, 0, 2]) / 2
    torch.testing.assert_close(scaled, plain / between[:, None, None, None])


def test_without_normalisation_scores_are_plain_products():
    source, target = pair(SIZES[0])
    points = torch.tensor([[[2.0, 1.0]]], dtype=torch.float64).expand(2, 1, 2)
    expected = torch.einsum("bc,bchw->bhw", source[:, :, 1, 2], target)
    torch.testing.assert_close(query_scores(source, target, points, normalize=False)[:, 0], expected)


def test_scorer_and_feature_scores_agree_with_query_scores():
    source, target = pair(SIZES[1])
    beta = torch.full((2, 1, 1), 0.2, dtype=torch.float64)
    points = torch.rand(2, 4, 2, dtype=torch.float64) * 3
    expected = query_scores(source, target, points, beta, beta)
    torch.testing.assert_close(query_scorer(source, target, beta, beta)(points), expected)
    torch.testing.assert_close(feature_scores(query_features(source, points, beta), target, beta), expected)


@pytest.mark.parametrize("query", ["normalize-then-sample", "sample-then-normalize"])
def test_gradients(query):
    source, target = (maps[:1, :3].clone().requires_grad_() for maps in pair(SIZES[1]))
    betas = [
        torch.rand(1, *maps.shape[-2:], dtype=torch.float64).add(0.2).requires_grad_() for maps in (source, target)
    ]
    points = torch.tensor([[[0.3, 1.6], [1.7, 3.2]]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *inputs: query_scores(*inputs, query=query), (source, target, points, *betas), fast_mode=True
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_features_give_float_scores_even_where_a_feature_is_zero(dtype):
    source, target = (maps.to(dtype).clone() for maps in pair(SIZES[0]))
    source[:, :, 0, 0] = target[:, :, 1, 1] = 0
    source *= 1000
    beta = torch.full((2, 1, 1), 0.0316)
    scores = query_scores(source, target, torch.zeros(2, 1, 2, dtype=dtype), beta, beta)
    assert scores.dtype == torch.float32
    assert (scores.abs() < 1e-3).all()  # of a range of 1000
    elsewhere = query_scores(source, target, torch.tensor([[[1.0, 1.0]]]).expand(2, 1, 2), beta, beta)
    exact = query_scores(source.double(), target.double(), torch.ones(2, 1, 2), beta, beta)
    torch.testing.assert_close(elsewhere.double(), exact, rtol=1e-5, atol=1e-2)


def test_scores_are_float32_under_autocast():
    source, target = (maps.float() for maps in pair(SIZES[0]))
    points = torch.rand(2, 3, 2) * 3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = query_scores(source, target, points)
    assert torch.equal(inside, query_scores(source, target, points))


def test_shared_images_give_the_gradient_of_unshared_ones():
    """Pairs (0,1), (0,2), (2,1) out of three images, against features copied per pair."""
    maps = torch.randn(3, 4, 3, 3, dtype=torch.float64)
    beta = torch.full((3, 1, 1), 0.3, dtype=torch.float64)
    points = torch.rand(3, 2, 2, dtype=torch.float64) * 2
    first, second = torch.tensor([0, 0, 2]), torch.tensor([1, 2, 1])
    shared = maps.clone().requires_grad_()
    images = Features(shared, beta, (48, 48))
    source, target = images.select(first), images.select(second)
    query_scores(source.maps, target.maps, points, source.beta, target.beta).square().sum().backward()
    expected = torch.zeros_like(maps)
    for row, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        copies = [maps[i : i + 1].clone().requires_grad_() for i in (a, b)]
        query_scores(*copies, points[row : row + 1], beta[:1], beta[:1]).square().sum().backward()
        expected[a] += copies[0].grad[0]
        expected[b] += copies[1].grad[0]
    torch.testing.assert_close(shared.grad, expected)


def test_sample_map_reads_half_maps_at_full_coordinate_precision():
    maps = torch.arange(64, dtype=torch.float16).reshape(1, 1, 1, 64)
    assert sample_map(maps, torch.tensor([[[60.26, 0.0]]])).item() == pytest.approx(60.26, abs=1e-4)


def test_unit_features_have_the_norm_of_one_over_beta():
    source, _ = pair(SIZES[0])
    norms = unit_features(source, torch.full((2, 1, 1), 0.25, dtype=torch.float64)).norm(dim=1)
    torch.testing.assert_close(norms, torch.full_like(norms, 4.0))


@given(
    x=st.floats(-3, 9), y=st.floats(-3, 9), height=st.integers(1, 6), width=st.integers(1, 6)
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_neighbours_interpolate_as_sample_map_does(x, y, height, width):
    maps = torch.arange(height * width, dtype=torch.float64).sin().reshape(1, 1, height, width)
    point = torch.tensor([[[x, y]]], dtype=torch.float64)
    cells, weights = neighbours(point, (height, width))
    assert (weights >= 0).all()
    assert weights.sum().item() == pytest.approx(1)
    gathered = (maps.flatten()[cells] * weights).sum()
    assert gathered.item() == pytest.approx(sample_map(maps, point).item(), abs=1e-9)


def test_wrong_names_and_shapes_are_refused():
    source, target = pair(SIZES[0])
    with pytest.raises(ConfigError, match="normalize-then-sample"):
        query_scores(source, target, torch.zeros(2, 1, 2), query="sample")
    with pytest.raises(ValueError, match="equal B and C"):
        query_scores(source, target[:, :3], torch.zeros(2, 1, 2))


def test_no_query_gives_no_score_map_of_a_channels_last_map():
    maps = torch.rand(1, 8, 16, 16).to(memory_format=torch.channels_last)
    assert query_scorer(maps, maps)(torch.zeros(1, 0, 2)).shape == (1, 0, 16, 16)


def test_the_batch_stays_free_in_an_exported_graph_of_channels_last_maps():
    class Scores(torch.nn.Module):
        def forward(self, maps, points):
            maps = maps.contiguous(memory_format=torch.channels_last)
            return query_scorer(maps, maps)(points)

    free = {0: torch.export.Dim("batch", min=2)}
    example = (torch.rand(2, 8, 16, 16), torch.rand(2, 5, 2))
    graph = torch.export.export(Scores(), example, dynamic_shapes=(free, free)).module()
    assert graph(torch.rand(3, 8, 16, 16), torch.rand(3, 5, 2)).shape == (3, 5, 16, 16)
