"""Maps and images looked up at real-valued places: a map at a picture's size, the source through a dense match."""

from __future__ import annotations

import numpy as np
from PIL import Image

from simsc.coordinates import Convention, Size, resize_points
from simsc.pictures.style import SHADE


def resize_map(values: np.ndarray, shown: Size, original: Size, convention: Convention = "center") -> np.ndarray:
    """Bilinear up-sampling of a map over an image of ``original`` size that is shown at ``shown`` size.

    Args:
        values: ``(h, w)`` or ``(h, w, c)``, one value per cell.
        shown: ``(height, width)`` of the result.
        original: size of the image that the map was computed on; matters for ``corner`` only.
        convention: how the cells relate to pixels of the original image; images are always scaled as ``center``.

    >>> resize_map(np.array([[0.0, 1.0]]), (1, 4), (1, 4)).tolist()
    [[0.0, 0.25, 0.75, 1.0]]
    """
    rows = _weights(values.shape[:2], shown, original, convention, axis=0)
    columns = _weights(values.shape[:2], shown, original, convention, axis=1)
    result: np.ndarray = np.einsum(
        "yi,ij...,xj->yx...", rows, np.asarray(values, dtype=np.float64), columns, optimize=True
    )
    return result


def sample_image(pixels: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bilinear look-up.

    Args:
        pixels: ``(H, W, c)``.
        places: ``(..., 2)`` xy in its pixels.

    Returns:
        ``(..., c)`` float values, and ``(...)`` bool: whether the place lies inside the image.

    >>> sample_image(np.array([[[0.0], [10.0]]]), np.array([[0.25, 0.0], [7.0, 0.0]]))
    (array([[ 2.5], [10. ]]), array([ True, False]))
    """
    limit = np.array([pixels.shape[1] - 1, pixels.shape[0] - 1])
    # A pixel reaches half a pixel around its centre.
    inside = np.logical_and(places >= -0.5, places <= limit + 0.5).all(axis=-1)
    clipped = np.nan_to_num(places).clip(0, limit)
    low = np.floor(clipped).astype(int)
    high = np.minimum(low + 1, limit)
    fx, fy = np.moveaxis((clipped - low)[..., None], -2, 0)
    upper = (1 - fx) * pixels[low[..., 1], low[..., 0]] + fx * pixels[low[..., 1], high[..., 0]]
    lower = (1 - fx) * pixels[high[..., 1], low[..., 0]] + fx * pixels[high[..., 1], high[..., 0]]
    return (1 - fy) * upper + fy * lower, np.asarray(inside)


def pixel_grid(size: Size) -> np.ndarray:
    """Centres of all pixels: ``(height, width, 2)`` xy."""
    y, x = np.mgrid[: size[0], : size[1]].astype(np.float64)
    return np.stack([x, y], axis=-1)


def _weights(cells: Size, shown: Size, original: Size, convention: Convention, axis: int) -> np.ndarray:
    """Interpolation weights along one axis: ``(shown, cells)``, rows sum to 1."""
    pixels = np.zeros((shown[axis], 2))
    pixels[:, 1 - axis] = np.arange(shown[axis])
    places = resize_points(resize_points(pixels, shown, original), original, cells, convention)[:, 1 - axis]
    places = places.clip(0, cells[axis] - 1)
    result: np.ndarray = np.clip(1 - np.abs(places[:, None] - np.arange(cells[axis])), 0, None)
    return result


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
