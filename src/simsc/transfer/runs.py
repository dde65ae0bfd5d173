"""Masks as lists of run lengths and as outlines: the forms of COCO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from simsc.coordinates import Size
from simsc.errors import DataError


def mask_to_runs(mask: np.ndarray) -> dict[str, Any]:
    """Uncompressed run lengths of a mask ``(H, W)``: column by column, zeros first.

    >>> mask_to_runs(np.array([[False, True], [False, True]]))
    {'size': [2, 2], 'counts': [2, 2]}
    """
    flat = np.asarray(mask, dtype=bool).ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    if flat.size and flat[0]:
        counts = [0, *counts]
    return {"size": list(mask.shape), "counts": counts}


def runs_to_mask(runs: dict[str, Any]) -> np.ndarray:
    """The mask ``(H, W)`` of uncompressed run lengths.

    >>> runs_to_mask({"size": [2, 2], "counts": [0, 1, 3]}).astype(int).tolist()
    [[1, 0], [0, 0]]
    """
    height, width = runs["size"]
    counts = runs["counts"]
    if not isinstance(counts, list) or sum(counts) != height * width:
        raise DataError("mask: expected uncompressed run lengths, a list of counts that sum to height * width")
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape((height, width), order="F")


def polygon_mask(polygons: Sequence[Sequence[tuple[float, float]]], size: Size) -> np.ndarray:
    """The union ``(H, W)`` of outlines given by their corners.

    >>> int(polygon_mask([[(1, 1), (3, 1), (3, 2), (1, 2)]], (5, 5)).sum())
    6
    """
    image = Image.new("1", (size[1], size[0]))
    for corners in polygons:
        if len(corners) >= 3:
            ImageDraw.Draw(image).polygon([(float(x), float(y)) for x, y in corners], fill=1)
    return np.array(image, dtype=bool)
