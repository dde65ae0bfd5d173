"""What a score map says about its own match: the signals that a calibration turns into a probability.

Each is finite, grows with trust, and compares across grids: distances are shares of the map's larger side.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from simsc.coordinates import cell_grid
from simsc.matching.features import at_least_float

SIGNALS = ("mass", "margin", "sharpness", "similarity", "cycle")
"""Names of the signals, in their order; the last one needs the way back and is :func:`cycle_signal`."""

NEAR = 0.07
"""Radius around a match, as a share of the map's larger side, within which probability supports it."""

_SMALLEST = 1e-4
_NEAREST = 0.01  # a cycle that closes better than this share of the image is as good as closed


def map_signals(scores: Tensor, found: Tensor, temperature: float | Tensor) -> Tensor:
    """Signals ``(B, N, 4)`` of score maps, at the temperature they were divided by.

    ``mass`` is the log-odds of the probability near the match; ``margin`` how far, in logits, the best cell near the
    match exceeds the best one elsewhere; ``sharpness`` one minus the entropy relative to a uniform map's;
    ``similarity`` the cosine similarity of the best cell.

    Args:
        scores: ``(B, N, h, w)``.
        found: ``(B, N, 2)`` xy of the matches, in cells.
        temperature: effective temperature, a number or ``(B,)``.

    >>> scores = torch.zeros(1, 1, 8, 8)
    >>> scores[0, 0, 2, 3] = 20.0
    >>> map_signals(scores, torch.tensor([[[3.0, 2.0]]]), 0.04)
    tensor([[[ 9.2101, 20.0000,  1.0000,  0.8000]]])
    """
    logits = at_least_float(scores).flatten(2)
    height, width = scores.shape[-2], scores.shape[-1]
    cells = cell_grid((height, width), scores.device, logits.dtype)
    radius = max(NEAR * max(height, width), 1.0)
    near = torch.cdist(found.to(logits.dtype), cells.expand(len(scores), -1, -1)) <= radius
    log_probability = torch.log_softmax(logits, dim=2)
    probability = log_probability.exp()
    mass = (probability * near).sum(dim=2).clamp(_SMALLEST, 1 - _SMALLEST)
    lowest = torch.finfo(logits.dtype).min
    inside = logits.masked_fill(~near, lowest).amax(dim=2)
    outside = logits.masked_fill(near, lowest).amax(dim=2)
    margin = (inside - torch.maximum(outside, logits.amin(dim=2))).clamp(-20, 20)
    entropy = -(probability * log_probability).sum(dim=2) / math.log(max(height * width, 2))
    best = logits.amax(dim=2) * torch.as_tensor(temperature, dtype=logits.dtype, device=logits.device).reshape(-1, 1)
    return torch.stack([torch.logit(mass), margin, 1 - entropy, best.clamp(-1, 1)], dim=-1)


def cycle_signal(error: Tensor, side: float) -> Tensor:
    """Signal ``(...)`` of forward-backward errors in pixels of an image whose larger side is ``side``.

    >>> cycle_signal(torch.tensor([0.0, 9.0]), side=100.0)
    tensor([4.6052, 2.3026])
    """
    return -torch.log(error / side + _NEAREST)
