"""Random zoom: an image scaled and shifted on a canvas of its own size, so that things vary in size and place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from simsc.coordinates import Size

SHIFT = 0.15
"""Largest shift, as a share of each side."""

_GREY = (124, 116, 104)  # the mean colour of ImageNet, which normalisation turns into 0


@dataclass(frozen=True)
class Zoom:
    """Points move to ``scale * point + offset``, both ``(2,)`` xy in pixels; the image's size stays."""

    scale: np.ndarray
    offset: np.ndarray

    @property
    def tag(self) -> str:
        """Names the zoom."""
        return str(np.concatenate([self.scale, self.offset]).round(4).tolist())

    def points(self, points: np.ndarray) -> np.ndarray:
        """Points ``(n, 2)`` after the zoom."""
        moved: np.ndarray = self.scale * points + self.offset
        return moved

    def pixels(self, pixels: np.ndarray) -> np.ndarray:
        """The image ``(H, W, 3)`` after the zoom; grey where there was nothing."""
        # Pillow counts from a pixel's border, points from its centre.
        start = 0.5 - (self.offset + 0.5) / self.scale
        matrix = (1 / self.scale[0], 0, start[0], 0, 1 / self.scale[1], start[1])
        height, width = pixels.shape[:2]
        affine, bilinear = Image.Transform.AFFINE, Image.Resampling.BILINEAR
        return np.asarray(Image.fromarray(pixels).transform((width, height), affine, matrix, bilinear, fillcolor=_GREY))


def random_zoom(size: Size, extent: np.ndarray, strength: float, generator: np.random.Generator) -> Zoom:
    """A zoom by a factor between ``1 / (1 + strength)`` and ``1 + strength``, slightly different in both directions.

    Args:
        size: ``(height, width)`` of the image.
        extent: ``[[x0, y0], [x1, y1]]``, a part that stays within the image, which limits the factor.
        strength: 0 leaves the image as it is.
        generator: decides.
    """
    if not strength:
        return Zoom(np.ones(2), np.zeros(2))
    last = np.array([size[1], size[0]], dtype=np.float64) - 1
    extent = np.clip(extent, 0, last)
    common, aspect, *shift = generator.uniform(-1, 1, 4)
    powers = common + np.array([1, -1]) * aspect / 4
    scale = np.minimum((1 + strength) ** powers, last / np.maximum(extent[1] - extent[0], 1))
    centred = last / 2 * (1 - scale) + np.array(shift) * SHIFT * last
    return Zoom(scale, np.clip(centred, -scale * extent[0], last - scale * extent[1]))
