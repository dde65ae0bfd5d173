"""Query points from text, from files, or as a regular grid."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

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


def _parse_point(text: str, where: str) -> list[float]:
    try:
        x, y = (float(number) for number in re.split(r"[,\s]+", text))
    except ValueError:
        raise DataError(f"{where}: '{text[:60]}' is not of the form x,y") from None
    return [x, y]
