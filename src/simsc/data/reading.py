"""What all readers share: files read with errors that name them, images with their sizes, checked points."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from simsc.coordinates import Size, flip_boxes, flip_points
from simsc.data.records import ImageRef, Pair
from simsc.errors import DataError
from simsc.images import image_size

Kind = TypeVar("Kind")

OFFICIAL_SLACK = 1.0
"""How far outside an image, in longer sides, a point of a published data set may lie: its counts are kept."""
OWN_SLACK = 0.1
"""The same for users' own files, where a far point most often means another resolution or swapped x and y."""


class ImageFolder:
    """Image references of one data set; each file's header is read once.

    Args:
        root: folder the keys are relative to.
        keep_suffix: whether keys keep ``.jpg``; users' own folders may hold both ``a.jpg`` and ``a.png``.
    """

    def __init__(self, root: Path, keep_suffix: bool = False) -> None:
        self.root, self.keep_suffix = root, keep_suffix
        self._sizes: dict[Path, Size] = {}

    def size(self, path: Path) -> Size:
        """``(height, width)`` of the file as shown."""
        if path not in self._sizes:
            self._sizes[path] = image_size(path)
        return self._sizes[path]

    def ref(self, path: Path, size: Size | None = None) -> ImageRef:
        """Reference with a stable key: the path below ``root``.

        ``size`` is given where the annotation states it, so that the header need not be read.
        """
        try:
            relative = path.relative_to(self.root)
        except ValueError:
            relative = path
        key = relative if self.keep_suffix else relative.with_suffix("")
        return ImageRef(key.as_posix(), size or self.size(path), path)


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


def check_inside(points: np.ndarray, size: Size, where: str, slack: float = OFFICIAL_SLACK) -> None:
    """Refuse points ``(n, 2)`` that are not finite or lie far outside an image of ``size``.

    Annotations lie a hair outside now and then; those points are kept as they are. Only a point more than
    ``slack`` times the longer side away from the image is refused.
    """
    limit = np.array([size[1] - 1, size[0] - 1], dtype=np.float64)
    outside = np.maximum(-points, points - limit).max(axis=1, initial=0)
    bad = ~(outside <= slack * max(size))  # a NaN compares false, so it is bad as well
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        x, y = points[index]
        raise DataError(f"{where}: point {index} at x={x:g}, y={y:g} is not in the image of {size[1]}x{size[0]} pixels")


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


@dataclass(frozen=True)
class Side:
    """One image of a pair with its points ``(n, 2)`` and its box."""

    image: ImageRef
    points: np.ndarray
    box: np.ndarray | None = None

    def mirrored(self) -> Side:
        """The same side seen in a mirror; its image carries ``|flip`` in its key."""
        width = self.image.size[1]
        return Side(
            image=replace(self.image, key=f"{self.image.key}|flip", flip=True),
            points=flip_points(self.points, width),
            box=None if self.box is None else flip_boxes(self.box, width),
        )


def make_pair(
    name: str,
    category: str,
    source: Side,
    target: Side,
    point_names: tuple[str, ...] = (),
    slack: float = OFFICIAL_SLACK,
) -> Pair:
    """A pair whose points lie in its images (see :func:`check_inside`)."""
    check_inside(source.points, source.image.size, f"pair '{name}': source_points in {source.image.path}", slack)
    check_inside(target.points, target.image.size, f"pair '{name}': target_points in {target.image.path}", slack)
    return Pair(
        name=name,
        category=category,
        source=source.image,
        target=target.image,
        source_points=source.points,
        target_points=target.points,
        source_box=source.box,
        target_box=target.box,
        point_names=point_names,
    )


def unique_names() -> Callable[[str], str]:
    """A function that numbers repeated names: ``a``, ``a#2``, ``a#3``.

    >>> unique = unique_names()
    >>> [unique("a"), unique("b"), unique("a")]
    ['a', 'b', 'a#2']
    """
    seen: Counter[str] = Counter()

    def unique(name: str) -> str:
        seen[name] += 1
        return name if seen[name] == 1 else f"{name}#{seen[name]}"

    return unique
