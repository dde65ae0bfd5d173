"""Score maps of many pairs of few images: what belongs to an image is computed once, whichever pairs it is in.

The same as :func:`simsc.matching.query_scores` of each pair. No feature map is copied: query features are read from all
maps at once, and all queries over one target are one matrix product.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.matching.bilinear import neighbours
from simsc.matching.scores import EPS, QueryMode, at_least_float, cell_divisor


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
    """Score maps ``(P, N, h, w)`` of P pairs among M images.

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
        queries = _queries(maps, source, points, scale, beta, normalize and query == "sample-then-normalize")
        slots, place = _slots(target, len(maps))
        gathered = queries[slots].flatten(1, 2)  # (M, pairs of a target * N, C)
        products = gathered @ maps.flatten(2) / scale.flatten(1)[:, None]
        return products.unflatten(1, (-1, points.shape[1])).flatten(0, 1)[place].unflatten(2, maps.shape[-2:])


def _queries(
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
