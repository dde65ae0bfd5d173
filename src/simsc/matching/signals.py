"""What a score map says about its own match: the signals that a calibration turns into a probability.

Each is finite, grows with trust, and compares across grids: distances are shares of the map's larger side.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from simsc.coordinates import Size
from simsc.matching.coherence import Expected, cell_shares
from simsc.matching.features import at_least_float

SIGNALS = ("mass", "margin", "sharpness", "similarity", "cycle")
"""Names of the signals, in their order; the last one needs the way back and is :func:`cycle_signal`."""

FURTHER_SIGNALS = ("closest", "wider", "widest", "distinct", "distinctive", "support", "common")
"""What models that heed coherence look at besides; these stand before the cycle."""

NEAR = 0.07
"""Radius around a match, as a share of the map's larger side, within which probability supports it."""

RADII = (0.035, 0.14, 0.25)
"""Further radii within which probability is summed up."""

ELSEWHERE = (0.1, 0.2)
"""From these distances on, as shares of the larger side, another place of the source is not the point itself."""

_SMALLEST = 1e-4
_NEAREST = 0.01  # a cycle that closes better than this share of the image is as good as closed


def map_signals(scores: Tensor, found: Tensor, temperature: float | Tensor, further: bool = False) -> Tensor:
    """Signals ``(B, N, 4)`` of score maps, at the temperature they were divided by; 7 with the ``further`` ones.

    ``mass`` is the log-odds of the probability near the match; ``margin`` how far, in logits, the best cell near the
    match exceeds the best one elsewhere; ``sharpness`` one minus the entropy relative to a uniform map's;
    ``similarity`` the cosine similarity of the best cell. Further ones are masses within :data:`RADII`.

    Args:
        scores: ``(B, N, h, w)``.
        found: ``(B, N, 2)`` xy of the matches, in cells.
        temperature: effective temperature, a number, ``(B,)``, or ``(B, N)`` where queries come from different images.

    >>> scores = torch.zeros(1, 1, 8, 8)
    >>> scores[0, 0, 2, 3] = 20.0
    >>> map_signals(scores, torch.tensor([[[3.0, 2.0]]]), 0.04)
    tensor([[[ 9.2101, 20.0000,  1.0000,  0.8000]]])
    """
    logits = at_least_float(scores).flatten(2)
    size = (scores.shape[-2], scores.shape[-1])
    found = found.to(logits.dtype)
    apart = _squared_distance(found, size).flatten(2)
    beyond = [apart > max(share * max(size), 1.0) ** 2 for share in (NEAR, *(RADII if further else ()))]
    best = logits.amax(dim=2)
    beneath = logits - best[..., None]
    weights = beneath.exp()
    total = weights.sum(dim=2)
    entropy = (total.log() - (weights * beneath).sum(dim=2) / total) / math.log(max(logits.shape[2], 2))
    lowest = torch.finfo(logits.dtype).min
    inside = logits.masked_fill(beyond[0], lowest).amax(dim=2)
    outside = logits.masked_fill(~beyond[0], lowest).amax(dim=2)
    margin = (inside - torch.maximum(outside, logits.amin(dim=2))).clamp(-20, 20)
    scale = torch.as_tensor(temperature, dtype=logits.dtype, device=logits.device)
    similarity = best * (scale if scale.ndim == 2 else scale.reshape(-1, 1))
    within = torch.stack([weights.masked_fill(each, 0).sum(dim=2) for each in beyond], dim=-1) / total[..., None]
    mass = torch.logit(within.clamp(_SMALLEST, 1 - _SMALLEST))
    rest = torch.stack([margin, 1 - entropy, similarity.clamp(-1, 1)], dim=-1)
    return torch.cat([mass[..., :1], rest, mass[..., 1:]], dim=-1)


def _squared_distance(found: Tensor, size: Size) -> Tensor:
    """From each point ``(B, N, 2)`` to each cell of a map of ``size``: ``(B, N, h, w)``."""
    across, down = (
        (torch.arange(length, device=found.device, dtype=found.dtype) - found[..., side, None]).square()
        for side, length in enumerate((size[1], size[0]))
    )
    return down[..., :, None] + across[..., None, :]


def distinctness(likeness: Tensor, points: Tensor, size: Size) -> Tensor:
    """How unlike everything else in its image a point is ``(n, 2)``: one minus the best similarity elsewhere.

    Elsewhere begins at the two distances of :data:`ELSEWHERE`.

    Args:
        likeness: ``(n, h * w)`` cosine similarities of the points to all cells of their own image.
        points: ``(n, 2)`` as shares of the map's larger side.
        size: ``(h, w)``.

    >>> distinctness(torch.tensor([[1.0, 0.2, 0.4]]), torch.tensor([[0.5 / 3, 0.5 / 3]]), (1, 3))
    tensor([[0.6000, 0.6000]])
    """
    apart = (points[:, None] - cell_shares(size, points)).square().sum(dim=2)
    return torch.stack([1 - likeness.masked_fill(apart < far**2, -1.0).amax(dim=1) for far in ELSEWHERE], dim=1)


def coherence_signals(distinct: Tensor, expected: Expected) -> Tensor:
    """Signals ``(n, 4)``: how unlike other places a point is, and how well its surroundings and the images match.

    ``distinct`` is what :func:`distinctness` gave, ``(n, 2)``.
    """
    votes = torch.stack([expected.support, expected.common], dim=1)
    return torch.cat([distinct, torch.log(votes + _SMALLEST)], dim=1)


def cycle_signal(error: Tensor, side: float) -> Tensor:
    """Signal ``(...)`` of forward-backward errors in pixels of an image whose larger side is ``side``.

    >>> cycle_signal(torch.tensor([0.0, 9.0]), side=100.0)
    tensor([4.6052, 2.3026])
    """
    return -torch.log(error / side + _NEAREST)
