"""Numbers to colours: a ramp for magnitudes, a wheel for directions, a chart for places."""

from __future__ import annotations

import numpy as np

from simsc.pictures.style import BLUE, GREEN, ORANGE, PAPER, PURPLE, SKY, VERMILLION, YELLOW

# Equal steps of lightness from dark violet over red to pale yellow: the order shows in grey print as well.
_RAMP = np.array(
    [
        (19, 0, 76), (56, 0, 102), (97, 14, 111), (138, 34, 109), (177, 56, 100),
        (210, 84, 85), (236, 118, 65), (251, 157, 48), (254, 199, 74), (251, 241, 99),
    ],
    dtype=np.float64,
)  # fmt: skip
# Right, down, left and up are vermillion, yellow, green and blue, with one colour between each two.
_WHEEL = np.array([VERMILLION, ORANGE, YELLOW, (120, 193, 90), GREEN, SKY, BLUE, PURPLE, VERMILLION], dtype=np.float64)
_CORNERS = np.array([[BLUE, SKY], [VERMILLION, YELLOW]], dtype=np.float64)


def ramp_colors(values: np.ndarray) -> np.ndarray:
    """Colours ``(..., 3)`` in 0..255 of values ``(...)``; those outside ``[0, 1]`` take the end colours.

    >>> ramp_colors(np.array([0.0, 1.0])).tolist()
    [[19.0, 0.0, 76.0], [251.0, 241.0, 99.0]]
    """
    return _interpolate(np.clip(np.nan_to_num(values), 0, 1), _RAMP)


def direction_colors(vectors: np.ndarray, longest: float) -> np.ndarray:
    """Colours ``(..., 3)`` of xy vectors ``(..., 2)``: hue is the direction, paleness says how short.

    >>> direction_colors(np.array([0.0, 0.0]), longest=1.0).tolist()
    [255.0, 255.0, 255.0]
    """
    turn = np.arctan2(vectors[..., 1], vectors[..., 0]) / (2 * np.pi) % 1
    strength = np.clip(np.linalg.norm(vectors, axis=-1, keepdims=True) / max(longest, 1e-9), 0, 1)
    return (1 - strength) * np.asarray(PAPER, dtype=np.float64) + strength * _interpolate(turn, _WHEEL)


def place_colors(places: np.ndarray) -> np.ndarray:
    """Colours ``(..., 3)`` of places ``(..., 2)`` in ``[0, 1]``: every place of the unit square its own colour.

    >>> place_colors(np.array([0.0, 0.0])).tolist()    # the upper left corner
    [0.0, 114.0, 178.0]
    """
    x, y = np.clip(places[..., :1], 0, 1), np.clip(places[..., 1:], 0, 1)
    top = (1 - x) * _CORNERS[0, 0] + x * _CORNERS[0, 1]
    bottom = (1 - x) * _CORNERS[1, 0] + x * _CORNERS[1, 1]
    return (1 - y) * top + y * bottom


def _interpolate(positions: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    steps = np.linspace(0, 1, len(anchors))
    return np.stack([np.interp(positions, steps, anchors[:, channel]) for channel in range(3)], axis=-1)
