"""Fields of annotations, checked for what they must hold, and the files of a split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from simsc.data.readers.matlab import read_arrays
from simsc.errors import DataError
from simsc.reading import is_file


def read_mat(path: Path, field: str) -> dict[str, np.ndarray]:
    """Numeric variables of a MATLAB file, which must hold ``field``."""
    if not is_file(path):
        raise DataError(f"{path}: the annotation is missing")
    content = read_arrays(path)
    if field not in content:
        raise DataError(f"{path}: the field '{field}' is missing")
    return content


def as_points(values: Any, where: str) -> np.ndarray:
    """``(n, 2)`` float64 from nested lists or an array; NaN is allowed here and means absent."""
    try:
        points = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{where}: expected numbers of shape (n, 2), got {str(values)[:80]}") from None
    if points.size == 0:
        return points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] != 2:
        raise DataError(f"{where}: expected shape (n, 2), got {points.shape}")
    return points


def four_numbers(values: Any, where: str) -> np.ndarray | None:
    """``(4,)`` float64, or ``None`` where nothing is given."""
    try:
        numbers = np.asarray([] if values is None else values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise DataError(f"{where}: expected four numbers, got {str(values)[:80]}") from None
    if len(numbers) not in (0, 4):
        raise DataError(f"{where}: expected four numbers, got {len(numbers)}")
    return numbers if len(numbers) else None


def finite_box(values: Any, where: str) -> np.ndarray | None:
    """A box ``(4,)`` x0, y0, x1, y1, or ``None`` where it is absent, not finite or empty."""
    box = four_numbers(values, where)
    if box is None or not np.isfinite(box).all() or box[2] <= box[0] or box[3] <= box[1]:
        return None
    return box


def split_file(root: Path, split: str, suffixes: tuple[str, ...]) -> Path:
    """``root`` itself if it is a file of the user's own (then it is a test set), else ``<root>/<split>.<suffix>``."""
    if is_file(root):
        if split != "test":
            raise DataError(
                f"{root}: a single file is a test set; for the split '{split}' give the folder "
                f"that holds {split}{suffixes[0]}"
            )
        return root
    candidates = [root / f"{split}{suffix}" for suffix in suffixes]
    for candidate in candidates:
        if is_file(candidate):
            return candidate
    raise DataError(f"{root}: there is no {' or '.join(path.name for path in candidates)}")
