"""The source seen through a dense match: warped onto the target, and compared with it."""

from __future__ import annotations

import numpy as np
from PIL import Image

from simsc.pictures.resample import pixel_grid, sample_image
from simsc.pictures.style import SHADE


def warp_source(source: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The source as seen through ``positions (H, W, 2)``: ``(H, W, 3)`` uint8; grey where it comes from outside.

    >>> image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    >>> bool((warp_source(image, pixel_grid((2, 2))) == image).all())
    True
    """
    values, inside = sample_image(source, np.asarray(positions, dtype=np.float64))
    return np.rint(np.where(inside[..., None], values, np.asarray(SHADE))).astype(np.uint8)


def checkerboard(first: np.ndarray, second: np.ndarray, squares: int = 6) -> np.ndarray:
    """Two ``(H, W, 3)`` images in turns, ``squares`` along the shorter side; edges run on where they agree.

    >>> checkerboard(np.zeros((2, 2, 3)), np.ones((2, 2, 3)), squares=2)[..., 0].tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    side = max(min(first.shape[:2]) / squares, 1)
    index = np.floor((pixel_grid((first.shape[0], first.shape[1])) + 0.5) / side).sum(axis=-1)
    return np.where((index % 2 == 0)[..., None], first, second)


def transfer_colors(target: np.ndarray, warped: np.ndarray) -> np.ndarray:
    """Light and dark of ``target (H, W, 3)`` with the colours of the ``warped`` source: ``(H, W, 3)`` uint8."""
    light = Image.fromarray(target).convert("YCbCr").split()[0]
    _, blue, red = Image.fromarray(warped).convert("YCbCr").split()
    return np.asarray(Image.merge("YCbCr", (light, blue, red)).convert("RGB"))
