"""Matches of a whole grid of points, chunk by chunk: the (hw) x (hw) scores never exist at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from simsc.coordinates import cell_grid
from simsc.matching.features import Features
from simsc.matching.localize import localize, peak_probability
from simsc.matching.scores import ScoreMaps, query_scorer

MAX_BYTES = 16 * 2**20
"""Memory for one chunk; larger chunks are not faster."""

SCORE_COPIES = 4  # score map, scaled or weighted map, probabilities, and one on the way between them
QUERY_COPIES = 2  # sampled feature, and the same in the layout of the product


@dataclass(frozen=True)
class DenseMatch:
    """Where each point of a grid in the source lies in the target.

    Attributes:
        points: ``(B, h, w, 2)`` xy in cells of the target map.
        confidence: ``(B, h, w)`` peak probability of each point's score map, in [0, 1].
    """

    points: Tensor
    confidence: Tensor


@torch.no_grad()
def dense_match(
    source: Features,
    target: Features,
    points: Tensor | None = None,
    *,
    score_maps: ScoreMaps | None = None,
    localizer: str = "kernel-soft-argmax",
    beta: float = 1.0,
    max_bytes: int = MAX_BYTES,
) -> DenseMatch:
    """Match every cell of the source, or a grid of points, within a memory budget; no gradient is kept.

    Args:
        source, target: features of the images, ``B`` pairs.
        points: ``(B, h, w, 2)`` or ``(h, w, 2)`` xy in cells of the source map; ``None`` for every cell's centre.
        score_maps: scores of points ``(B, n, 2)`` in cells of the source, for example ``model.scorer(source, target)``
            which honours the model's head and options; ``None`` for plain scaled cosine similarity.
        localizer: one of :data:`simsc.matching.LOCALIZERS`.
        beta: evaluation temperature, for models that have not learned one.
        max_bytes: memory for a chunk, beyond the result and one normalised copy of the source's features.

    >>> maps = torch.eye(6).reshape(1, 6, 2, 3)
    >>> image = Features(maps, torch.full((1, 1, 1), 0.1), (32, 48))
    >>> dense_match(image, image, localizer="argmax").points[0, 1].tolist()
    [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    """
    grid = dense_points(source, points)
    if score_maps is None:
        score_maps = query_scorer(source.maps, target.maps, source.beta, target.beta)
    found, confidence = [], []
    for chunk in grid.flatten(1, 2).split(chunk_size(source, target, max_bytes), dim=1):
        scores = score_maps(chunk)
        found.append(localize(scores, localizer, beta))
        confidence.append(peak_probability(scores, beta))
        del scores  # before the next chunk's scores are made
    shape = grid.shape[1:3]
    return DenseMatch(torch.cat(found, dim=1).unflatten(1, shape), torch.cat(confidence, dim=1).unflatten(1, shape))


def dense_points(source: Features, points: Tensor | None = None) -> Tensor:
    """The grid of queries as ``(B, h, w, 2)``: the given one, or the centres of the source's cells."""
    if points is None:
        points = cell_grid(source.map_size, device=source.maps.device).unflatten(0, source.map_size)
    return points.expand(len(source), *points.shape[-3:])


def chunk_size(source: Features, target: Features, max_bytes: int = MAX_BYTES) -> int:
    """How many queries of each pair are matched at once within ``max_bytes``; at least one.

    >>> image = Features(torch.zeros(1, 1024, 64, 64), torch.ones(1, 1, 1), (1024, 1024))
    >>> chunk_size(image, image, max_bytes=64 * 2**20)
    910
    """
    height, width = target.map_size
    numbers = SCORE_COPIES * height * width + QUERY_COPIES * source.maps.shape[1]
    width_in_bytes = max(source.maps.element_size(), 4)  # half precision is computed in float32
    return max(max_bytes // (len(source) * numbers * width_in_bytes), 1)
