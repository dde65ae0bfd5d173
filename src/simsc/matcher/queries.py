"""Query points from text, from files, or as a regular grid."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from simsc.coordinates import Size
from simsc.errors import DataError


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
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: the points file cannot be read ({error})") from None
    if path.suffix.lower() != ".json":
        return parse_points(text, str(path))
    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: not JSON ({error})") from None
    value = value.get("points") if isinstance(value, dict) else value
    try:
        points = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.zeros(0)
    if value == []:
        return np.zeros((0, 2))
    if points.ndim != 2 or points.shape[1] != 2:
        raise DataError(f"{path}: expected a list of [x, y], or an object with one under 'points'")
    return points


def grid_points(size: Size, count: int) -> np.ndarray:
    """``count x count`` points in the middle of equal tiles of an image ``(H, W)``: ``(count ** 2, 2)`` xy.

    >>> grid_points((4, 8), 2).tolist()
    [[1.5, 0.5], [5.5, 0.5], [1.5, 2.5], [5.5, 2.5]]
    """
    if count < 1:
        raise DataError(f"a grid of {count} points per side is not possible; give at least 1")
    steps = np.arange(count) + 0.5
    y, x = np.meshgrid(steps * size[0] / count - 0.5, steps * size[1] / count - 0.5, indexing="ij")
    return np.stack([x, y], axis=-1).reshape(-1, 2)


def _parse_point(text: str, where: str) -> list[float]:
    try:
        x, y = (float(number) for number in re.split(r"[,\s]+", text))
    except ValueError:
        raise DataError(f"{where}: '{text}' is not of the form x,y") from None
    return [x, y]
