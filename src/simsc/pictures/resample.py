"""Maps brought to the size of a picture, and images looked up at real-valued places."""

from __future__ import annotations

import numpy as np

from simsc.coordinates import Convention, Size, resize_points


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
    return np.einsum("yi,ij...,xj->yx...", rows, np.asarray(values, dtype=np.float64), columns, optimize=True)


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
    return np.clip(1 - np.abs(places[:, None] - np.arange(cells[axis])), 0, None)
