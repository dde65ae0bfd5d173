"""Score maps of query points (Eq. 2 and Eq. 5 of the paper), without the (hw) x (hw) tensor.

Bilinear interpolation is linear, so interpolating the full score tensor at a query point equals the product of the
*interpolated source feature* with all target features. Sampling first costs ``n * C * hw`` instead of ``hw * C * hw``.
Pairs that share images share what belongs to an image: :func:`shared_scores`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.errors import ConfigError, unknown_name
from simsc.matching.features import at_least_float, neighbours, sample_map

EPS = 1e-6
FEW = 4  # with so many times fewer queries than cells, only the cells around the queries are normalised
QueryMode = Literal["normalize-then-sample", "sample-then-normalize"]
ScoreMaps = Callable[[Tensor], Tensor]
"""From points ``(B, N, 2)`` in cells of the source to their score maps ``(B, N, h, w)`` over the target."""


def query_scores(
    source: Tensor,
    target: Tensor,
    points: Tensor,
    source_beta: Tensor | None = None,
    target_beta: Tensor | None = None,
    *,
    normalize: bool = True,
    query: QueryMode = "normalize-then-sample",
) -> Tensor:
    """Score maps M_q of query points: ``(B, N, h_B, w_B)``, computed and returned in at least float32.

    Args:
        source: ``(B, C, h_A, w_A)`` un-normalised source features.
        target: ``(B, C, h_B, w_B)`` un-normalised target features.
        points: ``(B, N, 2)`` xy queries in cells of the source map; those beyond the outermost cell centres take
            the nearest value inside.
        source_beta, target_beta: ``(B, 1, 1)`` or ``(B, h, w)`` temperatures; ``None`` means 1.
        normalize: cosine similarity; ``False`` is the paper's NoL2Norm ablation.
        query: ``"normalize-then-sample"`` as in the paper, or ``"sample-then-normalize"``.

    >>> source = torch.eye(4).reshape(1, 4, 2, 2)                    # four cells, four orthogonal features
    >>> query_scores(source, source, torch.tensor([[[0.5, 0.0]]]))   # half-way between the two upper cells
    tensor([[[[0.5000, 0.5000],
              [0.0000, 0.0000]]]])
    """
    return query_scorer(source, target, source_beta, target_beta, normalize=normalize, query=query)(points)


def query_scorer(
    source: Tensor,
    target: Tensor,
    source_beta: Tensor | None = None,
    target_beta: Tensor | None = None,
    *,
    normalize: bool = True,
    query: QueryMode = "normalize-then-sample",
) -> ScoreMaps:
    """:func:`query_scores` of two images as a function of the points; what does not depend on them is done once.

    >>> scores = query_scorer(torch.rand(1, 8, 4, 5), torch.rand(1, 8, 2, 3))
    >>> scores(torch.zeros(1, 7, 2)).shape
    torch.Size([1, 7, 2, 3])
    """
    _check_maps(source, target, query)
    target = at_least_float(target)
    with torch.autocast(device_type=target.device.type, enabled=False):
        read = _reader(source, source_beta, normalize, query)
        divisor = cell_divisor(target, target_beta, normalize)

    def scores(points: Tensor) -> Tensor:
        with torch.autocast(device_type=target.device.type, enabled=False):
            return _products(read(points), target, divisor)

    return scores


def query_features(
    source: Tensor,
    points: Tensor,
    beta: Tensor | None = None,
    normalize: bool = True,
    query: QueryMode = "normalize-then-sample",
) -> Tensor:
    """Source features at the query points, normalised and divided by the temperature: ``(B, N, C)``."""
    _check_maps(source, source, query)
    with torch.autocast(device_type=source.device.type, enabled=False):
        return _reader(source, beta, normalize, query)(points)


def feature_scores(queries: Tensor, target: Tensor, beta: Tensor | None = None, *, normalize: bool = True) -> Tensor:
    """Score maps ``(B, N, h, w)`` of query features ``(B, N, C)`` over target maps ``(B, C, h, w)``."""
    target = at_least_float(target)
    with torch.autocast(device_type=target.device.type, enabled=False):
        return _products(queries.to(target.dtype), target, cell_divisor(target, beta, normalize))


def shared_scores(
    maps: Tensor,
    source: Tensor,
    target: Tensor,
    points: Tensor,
    beta: Tensor | None = None,
    *,
    normalize: bool = True,
    query: QueryMode = "normalize-then-sample",
) -> Tensor:
    """Score maps ``(P, N, h, w)`` of P pairs among M images: :func:`query_scores` of each, sharing what they share.

    No feature map is copied: query features are read from all maps at once, and all queries over one target are one
    matrix product.

    Args:
        maps: ``(M, C, h, w)`` un-normalised features of the images.
        source, target: ``(P,)`` index of each pair's images.
        points: ``(P, N, 2)`` xy queries in cells of the source map.
        beta: ``(M, 1, 1)`` or ``(M, h, w)`` temperatures; ``None`` means 1.
        normalize, query: see :func:`simsc.matching.query_scores`.

    >>> maps = torch.eye(4).reshape(1, 4, 2, 2).repeat(3, 1, 1, 1)
    >>> pairs = torch.tensor([0, 1, 2]), torch.tensor([1, 0, 0])
    >>> shared_scores(maps, *pairs, torch.zeros(3, 5, 2)).shape
    torch.Size([3, 5, 2, 2])
    """
    maps = at_least_float(maps)
    with torch.autocast(device_type=maps.device.type, enabled=False):
        scale = cell_divisor(maps, beta, normalize)
        queries = _shared_queries(maps, source, points, scale, beta, normalize and query == "sample-then-normalize")
        slots, place = _slots(target, len(maps))
        gathered = queries[slots].flatten(1, 2)  # (M, pairs of a target * N, C)
        products = gathered @ maps.flatten(2) / scale.flatten(1)[:, None]
        result: Tensor = products.unflatten(1, (-1, points.shape[1])).flatten(0, 1)[place].unflatten(2, maps.shape[-2:])
        return result


def unit_features(maps: Tensor, beta: Tensor | None = None, normalize: bool = True) -> Tensor:
    """The whole map ``(B, C, h, w)`` normalised over channels and divided by its temperature."""
    maps = at_least_float(maps)
    return maps / cell_divisor(maps, beta, normalize)[:, None]


def _reader(source: Tensor, beta: Tensor | None, normalize: bool, query: str) -> Callable[[Tensor], Tensor]:
    """From points ``(B, N, 2)`` to their scaled source features ``(B, N, C)``."""
    if query == "normalize-then-sample" or not normalize:
        unit = cache(lambda: unit_features(source, beta, normalize))
        cells = source.shape[-2] * source.shape[-1]

        def read(points: Tensor) -> Tensor:
            few = FEW * points.shape[1] < cells
            return _sample_few(source, points, beta, normalize) if few else sample_map(unit(), points)

        return read
    per_cell = cell_divisor(at_least_float(source), beta, normalize=False)[:, None]
    return lambda points: F.normalize(sample_map(source, points), dim=-1, eps=EPS) / sample_map(per_cell, points)


def _sample_few(source: Tensor, points: Tensor, beta: Tensor | None, normalize: bool) -> Tensor:
    """What sampling :func:`unit_features` gives ``(B, N, C)``, from only the four cells around each point."""
    size = (source.shape[-2], source.shape[-1])
    cells, weights = neighbours(at_least_float(points), size)
    cells, weights = cells.flatten(1), weights.flatten(1)
    around = at_least_float(_gather_cells(source, cells))
    divisor = torch.linalg.vector_norm(around, dim=2).clamp(min=EPS) if normalize else torch.ones_like(weights)
    if beta is not None:
        divisor = divisor * beta.to(around.dtype).expand(-1, *size).flatten(1).gather(1, cells)
    shares = (weights.to(around.dtype) / divisor).unflatten(1, (-1, 1, 4))
    result: Tensor = (shares @ around.unflatten(1, (-1, 4)))[:, :, 0]
    return result


def _gather_cells(maps: Tensor, cells: Tensor) -> Tensor:
    """Features ``(B, K, C)`` of the cells ``(B, K)``."""
    if (rows := _rows(maps)) is not None:
        first = torch.arange(rows.shape[0], device=cells.device)[:, None] * rows.shape[1]
        return rows.flatten(0, 1).index_select(0, (cells + first).flatten()).view(*cells.shape, rows.shape[2])
    return maps.flatten(2).gather(2, cells[:, None].expand(-1, maps.shape[1], -1)).transpose(1, 2)


def _rows(maps: Tensor) -> Tensor | None:
    """Maps as rows ``(B, h * w, C)`` if that is how they lie in memory (channels_last), else None.

    Few queries are bound by reading the map; with a cell's channels side by side that is twice as fast.
    """
    if maps.is_contiguous() or not maps.is_contiguous(memory_format=torch.channels_last):
        return None
    return maps.permute(0, 2, 3, 1).flatten(1, 2)


def _products(queries: Tensor, target: Tensor, divisor: Tensor) -> Tensor:
    rows = _rows(target)
    products = queries @ (target.flatten(2) if rows is None else rows.transpose(1, 2))
    products = products.unflatten(-1, target.shape[-2:])
    # Dividing the n score maps is cheaper than dividing the C target channels, and gives the same.
    result: Tensor = products / divisor[:, None]
    return result


def cell_divisor(maps: Tensor, beta: Tensor | None, normalize: bool) -> Tensor:
    """What each cell's feature is divided by, ``(B, h, w)``: its norm times its temperature."""
    shape = (maps.shape[0], *maps.shape[-2:])
    norm = _norms(maps).clamp(min=EPS) if normalize else maps.new_ones(shape)
    return norm if beta is None else norm * beta.to(maps.dtype)


def _norms(maps: Tensor) -> Tensor:
    """Length ``(B, h, w)`` of each cell's feature."""
    result: Tensor
    if torch.is_grad_enabled():
        result = torch.linalg.vector_norm(maps, dim=1)
        return result
    if (rows := _rows(maps)) is not None:
        result = torch.linalg.vector_norm(rows, dim=2).unflatten(1, maps.shape[-2:])
        return result
    # Blocks that stay in the processor's cache: ten times faster on a CPU than one reduction over all channels.
    squares = maps.new_zeros((maps.shape[0], *maps.shape[-2:]))
    for block in maps.split(64, dim=1):
        squares += block.square().sum(dim=1)
    return squares.sqrt_()


def _shared_queries(
    maps: Tensor, source: Tensor, points: Tensor, scale: Tensor, beta: Tensor | None, sample_first: bool
) -> Tensor:
    """Features ``(P, N, C)`` at the points, normalised and divided by the temperature."""
    size = (maps.shape[-2], maps.shape[-1])
    cells, weights = neighbours(at_least_float(points), size)
    index = cells + source[:, None, None] * (size[0] * size[1])
    rows = maps.flatten(2).transpose(1, 2).flatten(0, 1)
    around = rows.index_select(0, index.flatten()).view(*index.shape, rows.shape[1])
    weights = weights.to(maps.dtype)
    if not sample_first:
        return _weighted_sum(weights / scale.flatten()[index], around)
    sampled = F.normalize(_weighted_sum(weights, around), dim=-1, eps=EPS)
    if beta is None:
        return sampled
    return sampled / (weights * beta.to(maps).expand(-1, *size).flatten()[index]).sum(dim=-1, keepdim=True)


def _weighted_sum(weights: Tensor, features: Tensor) -> Tensor:
    """``(P, N, 4)`` and ``(P, N, 4, C)`` -> ``(P, N, C)``."""
    return (weights[:, :, None] @ features)[:, :, 0]


def _slots(target: Tensor, images: int) -> tuple[Tensor, Tensor]:
    """Pairs by target ``(M, K)``, filled up with pair 0, and the place ``(P,)`` of each pair in that flattened table.

    >>> _slots(torch.tensor([1, 0, 1]), 2)
    (tensor([[1, 0],
            [0, 2]]), tensor([2, 0, 3]))
    """
    same = target[:, None] == target
    rank = same.tril(-1).sum(dim=1)  # how many earlier pairs have the same target
    width = int(rank.max()) + 1
    place = target * width + rank
    slots = target.new_zeros(images * width)
    slots[place] = torch.arange(len(target), device=target.device)
    return slots.view(images, width), place


def _check_maps(source: Tensor, target: Tensor, query: str) -> None:
    if query not in get_args(QueryMode):
        raise ConfigError(unknown_name("query mode", query, get_args(QueryMode)))
    if source.ndim != 4 or target.ndim != 4 or source.shape[:2] != target.shape[:2]:
        raise ValueError(
            f"source and target features must be (B, C, h, w) with equal B and C, "
            f"got {tuple(source.shape)} and {tuple(target.shape)}"
        )
