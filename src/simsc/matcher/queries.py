"""Query points from text, from files, or as a regular grid; and those that make no sense refused."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.reading import number_table, parse_json, read_text

_LONGEST_FILE = 64 << 20
_LARGEST_GRID = 1000


def parse_points(text: str, where: str = "--points") -> np.ndarray:
    """``(n, 2)`` points of a text such as ``120,88;60,140``; points end at ``;`` or at the end of a line.

    >>> parse_points("120,88; 60.5 140")
    array([[120. ,  88. ],
           [ 60.5, 140. ]])
    """
    points = []
    for number, part in enumerate(re.split(r"[;\n]", text), start=1):
        part = part.partition("#")[0].strip()
        if part:
            points.append(_parse_point(part, f"{where}, point {number}"))
    return np.array(points, dtype=np.float64).reshape(-1, 2)


def read_points(path: str | Path) -> np.ndarray:
    """``(n, 2)`` points of a file: JSON ``[[x, y], ...]``, or that under ``points``; else lines of text, ``x,y``."""
    path = Path(path)
    if path.suffix.lower() != ".json":
        return parse_points(read_text(path, _LONGEST_FILE), str(path))
    value = parse_json(read_text(path, _LONGEST_FILE), path)
    value = value.get("points") if isinstance(value, dict) else value
    if not isinstance(value, list):
        raise DataError(f"{path}: expected a list of [x, y], or an object with one under 'points'")
    return number_table(value, 2, f"{path}: points")


def grid_points(size: Size, count: int) -> np.ndarray:
    """``count x count`` points in the middle of equal tiles of an image ``(H, W)``: ``(count ** 2, 2)`` xy.

    >>> grid_points((4, 8), 2).tolist()
    [[1.5, 0.5], [5.5, 0.5], [1.5, 2.5], [5.5, 2.5]]
    """
    if not 1 <= count <= _LARGEST_GRID:
        raise DataError(f"a grid of {count} points per side is not possible; give 1 to {_LARGEST_GRID}")
    steps = np.arange(count) + 0.5
    y, x = np.meshgrid(steps * size[0] / count - 0.5, steps * size[1] / count - 0.5, indexing="ij")
    return np.stack([x, y], axis=-1).reshape(-1, 2)


def names_of(points: object) -> tuple[str, ...]:
    """Names of query points that are given as a dictionary, else nothing."""
    return tuple(str(name) for name in points) if isinstance(points, Mapping) else ()


def check_query(points: object, size: Size) -> np.ndarray:
    """Query points as ``(n, 2)`` float64; refuses other shapes and points outside of the image ``(H, W)``.

    >>> check_query([(3, 4)], (10, 10))
    array([[3., 4.]])
    >>> check_query({"nose": (3, 4)}, (10, 10))
    array([[3., 4.]])
    """
    if isinstance(points, Mapping):
        points = list(points.values())
    try:
        array = np.asarray(points.cpu() if isinstance(points, Tensor) else points, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("points: expected pairs of numbers (x, y)") from None
    if array.size == 0:
        return np.zeros((0, 2))
    if array.ndim != 2 or array.shape[1] != 2:
        raise DataError(f"points: expected shape (n, 2), one (x, y) each, got {array.shape}")
    height, width = size
    inside = (array >= -0.5).all(axis=1) & (array <= (width - 0.5, height - 0.5)).all(axis=1)
    if not inside.all():
        index = int(np.flatnonzero(~inside)[0])
        x, y = array[index]
        raise DataError(
            f"point {index + 1} at ({x:g}, {y:g}) lies outside of the source image of {width}x{height} pixels"
        )
    return array


def _parse_point(text: str, where: str) -> list[float]:
    try:
        x, y = (float(number) for number in re.split(r"[,\s]+", text))
    except ValueError:
        raise DataError(f"{where}: '{text[:60]}' is not of the form x,y") from None
    if not (math.isfinite(x) and math.isfinite(y)):
        raise DataError(f"{where}: '{text[:60]}' is not a place: both numbers must be finite")
    return [x, y]
