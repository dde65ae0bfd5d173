"""A photograph scaled into its place on a sheet, and the points that lie on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from simsc.coordinates import Size, resize_points
from simsc.errors import DataError
from simsc.images import check_pixels

WIDEST = 3  # a panel is at most this many times as wide as high; longer strips are scaled down further


@dataclass(frozen=True)
class Panel:
    """A scaled image at a place of a sheet.

    Attributes:
        image: the scaled photograph.
        original: ``(height, width)`` of the pixels the points refer to.
        left, top: where its upper left pixel lies on the sheet.
    """

    image: Image.Image
    original: Size
    left: int = 0
    top: int = 0

    @property
    def size(self) -> Size:
        """``(height, width)`` as shown."""
        return self.image.height, self.image.width

    def moved(self, left: int, top: int) -> Panel:
        """The same panel at another place."""
        return Panel(self.image, self.original, left, top)

    def places(self, points: np.ndarray) -> np.ndarray:
        """Places ``(n, 2)`` on the sheet of points ``(n, 2)`` in original pixels; outside ones lie on the border."""
        shown = resize_points(np.asarray(points, dtype=np.float64), self.original, self.size)
        limit = np.array([self.image.width - 1, self.image.height - 1])
        return shown.clip(0, limit) + np.array([self.left, self.top])


def fit_panel(pixels: np.ndarray, height: int) -> Panel:
    """Scale ``(H, W, 3)`` uint8 pixels to ``height``, or less for a very wide strip.

    >>> fit_panel(np.zeros((100, 50, 3), np.uint8), 200).size
    (200, 100)
    """
    pixels = np.asarray(pixels)
    check_pixels(pixels)
    size = shown_size(pixels.shape[:2], height)
    image = Image.fromarray(pixels).resize((size[1], size[0]), Image.Resampling.BICUBIC)
    return Panel(image, (pixels.shape[0], pixels.shape[1]))


def shown_size(original: tuple[int, ...], height: int) -> Size:
    """``(height, width)`` at which an image of ``original`` size is shown.

    >>> shown_size((50, 10000), 300)
    (4, 900)
    """
    scale = min(height / original[0], WIDEST * height / original[1])
    return max(round(original[0] * scale), 1), max(round(original[1] * scale), 1)


def check_points(points: np.ndarray, name: str, count: int | None = None) -> np.ndarray:
    """Points as ``(n, 2)`` float64, or an error that says what is wrong; an empty list is ``(0, 2)``."""
    points = np.asarray(points, dtype=np.float64)
    if points.size == 0:
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise DataError(f"{name}: expected finite points of shape (n, 2), got an array of shape {points.shape}")
    if count is not None and len(points) != count:
        raise DataError(f"{name}: expected {count} point(s), got {len(points)}")
    return points
