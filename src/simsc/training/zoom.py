"""Random zoom and turn: an image scaled, turned and shifted on a canvas of its own size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from PIL import Image

from simsc.coordinates import Size

SHIFT = 0.15
"""Largest shift, as a share of each side."""

_GREY = (124, 116, 104)  # the mean colour of ImageNet, which normalisation turns into 0


@dataclass(frozen=True)
class Zoom:
    """Points move to ``matrix @ point + offset``, ``(2, 2)`` and ``(2,)``, xy in pixels; the image's size stays."""

    matrix: np.ndarray
    offset: np.ndarray

    @property
    def tag(self) -> str:
        """Names the zoom."""
        return str(np.concatenate([self.matrix.ravel(), self.offset]).round(4).tolist())

    def points(self, points: np.ndarray) -> np.ndarray:
        """Points ``(n, 2)`` after the zoom."""
        moved: np.ndarray = points @ self.matrix.T + self.offset
        return moved

    def pixels(self, pixels: np.ndarray) -> np.ndarray:
        """The image ``(H, W, 3)`` after the zoom; grey where there was nothing."""
        back = np.linalg.inv(self.matrix)
        start = 0.5 - back @ (self.offset + 0.5)  # Pillow counts from a pixel's border, points from its centre
        coefficients = (*back[0], start[0], *back[1], start[1])
        height, width = pixels.shape[:2]
        affine, bilinear = Image.Transform.AFFINE, Image.Resampling.BILINEAR
        picture = Image.fromarray(pixels).transform((width, height), affine, coefficients, bilinear, fillcolor=_GREY)
        return np.asarray(picture)


def random_zoom(
    size: Size, extent: np.ndarray, strength: float, generator: np.random.Generator, turn: float = 0.0
) -> Zoom:
    """A zoom by a factor between ``1 / (1 + strength)`` and ``1 + strength``, slightly different in both directions.

    Args:
        size: ``(height, width)`` of the image.
        extent: ``[[x0, y0], [x1, y1]]``, a part that stays within the image, which limits the factor.
        strength: 0 leaves the image's scale as it is, unless a turned part would not fit.
        generator: decides.
        turn: before that the image is turned about its centre, by at most so many degrees.
    """
    if not strength and not turn:
        return Zoom(np.eye(2), np.zeros(2))
    last = np.array([size[1], size[0]], dtype=np.float64) - 1
    turned = _turned(last, math.radians(turn * generator.uniform(-1, 1)) if turn else 0.0)
    extent = _around(turned.points(_corners(np.clip(extent, 0, last))))
    common, aspect, *shift = generator.uniform(-1, 1, 4)
    powers = common + np.array([1, -1]) * aspect / 4
    scale = np.minimum((1 + strength) ** powers, last / np.maximum(extent[1] - extent[0], 1))
    centred = last / 2 * (1 - scale) + np.array(shift) * SHIFT * last
    offset = np.clip(centred, -scale * extent[0], last - scale * extent[1])
    return Zoom(scale[:, None] * turned.matrix, scale * turned.offset + offset)


def _turned(last: np.ndarray, angle: float) -> Zoom:
    """A turn about the centre of an image whose last pixel is ``last``."""
    cosine, sine = math.cos(angle), math.sin(angle)
    matrix = np.array([[cosine, -sine], [sine, cosine]])
    return Zoom(matrix, last / 2 - matrix @ (last / 2))


def _corners(extent: np.ndarray) -> np.ndarray:
    return np.array(list(product(extent[:, 0], extent[:, 1])))


def _around(points: np.ndarray) -> np.ndarray:
    return np.stack([points.min(axis=0), points.max(axis=0)])
