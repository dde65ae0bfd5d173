"""Files read with errors that name them, and fields checked for what they must hold."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from simsc.errors import DataError

Kind = TypeVar("Kind")


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: not valid JSON ({error})") from None


def read_text(path: Path) -> str:
    """The content of a UTF-8 file."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None


def read_csv(path: Path, required: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a CSV file with a header; ``required`` columns must exist and be filled in every row."""
    rows = list(csv.DictReader(read_text(path).splitlines(), skipinitialspace=True))
    header = list(rows[0]) if rows else []
    if missing := [column for column in required if column not in header]:
        raise DataError(f"{path}: column '{missing[0]}' is missing; the header needs {', '.join(required)}")
    for number, row in enumerate(rows, start=2):
        if empty := [column for column in required if not row[column]]:
            raise DataError(f"{path}, line {number}: column '{empty[0]}' is empty")
    return rows


def read_mat(path: Path, field: str) -> dict[str, np.ndarray]:
    """Variables of a MATLAB file, which must hold ``field``."""
    import scipy.io

    if not path.is_file():
        raise DataError(f"{path}: the annotation is missing")
    try:
        content: dict[str, np.ndarray] = scipy.io.loadmat(str(path))
    except Exception as error:  # scipy raises many kinds on damaged files
        raise DataError(f"{path}: not a readable MATLAB file ({error})") from None
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


def typed_field(content: Any, name: str, kind: type[Kind], where: object) -> Kind:
    """``content[name]``, which must be of a kind: ``dict``, ``list``, ``str`` or ``int``."""
    value = content.get(name) if isinstance(content, dict) else None
    if value is None:
        raise DataError(f"{where}: the field '{name}' is missing")
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = {"dict": "an object", "list": "a list", "str": "a text", "int": "a whole number"}[kind.__name__]
        raise DataError(f"{where}: the field '{name}' must be {expected}, got {str(value)[:80]!r}")
    return value


def split_file(root: Path, split: str, suffixes: tuple[str, ...]) -> Path:
    """``root`` itself if it is a file of the user's own (then it is a test set), else ``<root>/<split>.<suffix>``."""
    if root.is_file():
        if split != "test":
            raise DataError(
                f"{root}: a single file is a test set; for the split '{split}' give the folder "
                f"that holds {split}{suffixes[0]}"
            )
        return root
    candidates = [root / f"{split}{suffix}" for suffix in suffixes]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise DataError(f"{root}: there is no {' or '.join(path.name for path in candidates)}")
