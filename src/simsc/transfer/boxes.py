"""Boxes through point matches: a robust scale and shift along each axis."""

from __future__ import annotations

import numpy as np

from simsc.coordinates import Size

GRID = 7
"""Points per side that are matched inside of a box."""

Box = tuple[float, float, float, float]


def box_points(box: Box, size: Size, count: int = GRID) -> np.ndarray:
    """A regular grid ``(count ** 2, 2)`` of pixel positions in a box, kept inside of the image ``(H, W)``."""
    steps = (np.arange(count) + 0.5) / count
    x = box[0] + steps * (box[2] - box[0]) - 0.5
    y = box[1] + steps * (box[3] - box[1]) - 0.5
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return grid.clip(0, (size[1] - 1, size[0] - 1))


def move_box(box: Box, start: np.ndarray, end: np.ndarray, size: Size) -> Box:
    """The box after the motion that takes points ``start (n, 2)`` to ``end (n, 2)``, cut to the image ``(H, W)``.

    Each axis has a scale and a shift of its own, medians over all pairs of points, so that stray matches count
    little; the scale of a mirrored thing is negative.

    >>> points = box_points((0, 0, 10, 20), (50, 50))
    >>> [round(edge, 6) for edge in move_box((0, 0, 10, 20), points, points * 2 + (5.5, 0.5), (50, 50))]
    [5.0, 0.0, 25.0, 40.0]
    """
    edges = []
    for axis, length in ((0, size[1]), (1, size[0])):
        scale, shift = _median_line(start[:, axis] + 0.5, end[:, axis] + 0.5)
        low, high = sorted((box[axis] * scale + shift, box[axis + 2] * scale + shift))
        edges.append((min(max(low, 0.0), float(length)), min(max(high, 0.0), float(length))))
    (x0, x1), (y0, y1) = edges
    return x0, y0, x1, y1


def _median_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and offset of the line through most of the points (Theil and Sen)."""
    run, rise = x[:, None] - x, y[:, None] - y
    apart = run > 1e-6
    slope = float(np.median(rise[apart] / run[apart])) if apart.any() else 1.0
    return slope, float(np.median(y - slope * x))
