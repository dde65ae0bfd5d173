"""The four cells around a point, for interpolation that is not a plain weighted mean (as in log space)."""

from __future__ import annotations

import torch
from torch import Tensor

from simsc.coordinates import Size


def neighbours(points: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """The four cells around each point and their bilinear weights, which sum to 1.

    Points beyond the outermost cell centres take the nearest place inside.

    Args:
        points: ``(..., 2)`` xy in cells.
        size: ``(h, w)`` of the map.

    Returns:
        ``(..., 4)`` indices into the flattened map, and ``(..., 4)`` weights.

    >>> neighbours(torch.tensor([0.25, 1.0]), (3, 4))
    (tensor([4, 5, 8, 9]), tensor([0.7500, 0.2500, 0.0000, 0.0000]))
    """
    limit = points.new_tensor([size[1] - 1, size[0] - 1])
    inside = torch.minimum(points.clamp(min=0), limit)
    low = inside.detach().floor()
    fraction = inside - low
    both = torch.stack([low, torch.minimum(low + 1, limit)], dim=-1).long()
    shares = torch.stack([1 - fraction, fraction], dim=-1)
    cells = both[..., 1, :, None] * size[1] + both[..., 0, None, :]
    weights = shares[..., 1, :, None] * shares[..., 0, None, :]
    return cells.flatten(-2), weights.flatten(-2)
