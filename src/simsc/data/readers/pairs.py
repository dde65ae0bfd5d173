"""Users' own pairs in a simple JSON or CSV file; the format is described in ``docs/data.md``.

``root`` is the file, or a folder with ``train``, ``val`` and ``test`` files. A single file is a test set.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simsc.data.catalog import Dataset, DatasetInfo
from simsc.data.readers.building import OWN_SLACK, ImageFolder, inside, unique_names
from simsc.data.readers.reading import as_points, split_file
from simsc.data.records import Annotated, ImageRef, Pair, unique_images
from simsc.errors import DataError
from simsc.reading import read_csv, read_json

_CSV_COLUMNS = ("source", "target", "source_x", "source_y", "target_x", "target_y")


class OwnPairs(Dataset):
    """A list of pairs of the user's own; what a point is called may differ from pair to pair."""

    info = DatasetInfo(
        name="pairs",
        title="Own pairs (JSON or CSV)",
        splits=("train", "val", "test"),
        threshold="img",
        by_hand="give your JSON or CSV file, or the folder with train, val and test files, as --root",
    )
    listed = True

    def objects(self, root: Path, split: str) -> list[Annotated]:  # noqa: ARG002 - there are none
        """None: points of different pairs of the file are not known to be the same."""
        raise DataError(
            f"{root}: a list of pairs has no objects to form other pairs of; use group=2, or key-points in COCO format"
        )

    def pairs(self, root: Path, split: str) -> list[Pair]:
        """All pairs of the file, in its order; a point that is absent (null) on one side is left out."""
        path = split_file(root, split, (".json", ".csv"))
        entries, base = _csv_entries(path) if path.suffix.lower() == ".csv" else _json_entries(path)
        images, unique = ImageFolder(path.parent, keep_suffix=True), unique_names()
        return [_pair(entry, f"{path}: pair {index}", base, images, unique) for index, entry in enumerate(entries)]

    def images(self, root: Path, split: str) -> list[ImageRef]:
        """The images of the file's pairs."""
        return unique_images(self.pairs(root, split))


PAIRS = OwnPairs()


def _json_entries(path: Path) -> tuple[list[Any], int]:
    content = read_json(path)
    if isinstance(content, list):
        content = {"pairs": content}
    if not isinstance(content, dict) or not isinstance(content.get("pairs"), list):
        raise DataError(f"{path}: the field 'pairs' must be a list of pairs")
    base = content.get("index_base", 0)
    if base not in (0, 1):
        raise DataError(f"{path}: 'index_base' must be 0 or 1, got {base!r}")
    return content["pairs"], int(base)


def _csv_entries(path: Path) -> tuple[list[Any], int]:
    """Rows in the shape of JSON entries."""
    entries = []
    for number, row in enumerate(read_csv(path, _CSV_COLUMNS), start=2):
        entry: dict[str, Any] = {key: row[key] for key in ("name", "category") if row.get(key)}
        for side in ("source", "target"):
            columns = [_numbers(row[f"{side}_{axis}"], f"{path}, line {number}: {side}_{axis}") for axis in "xy"]
            if len(columns[0]) != len(columns[1]):
                raise DataError(
                    f"{path}, line {number}: {len(columns[0])} values in {side}_x but {len(columns[1])} in {side}_y"
                )
            entry[side] = {"image": row[side], "points": np.array(columns).T.tolist()}
            if box := row.get(f"{side}_box"):
                entry[side]["box"] = _numbers(box, f"{path}, line {number}: {side}_box")
        entries.append(entry)
    return entries, 0


def _numbers(text: str, where: str) -> list[float]:
    try:
        return [float(part) if part.strip() else float("nan") for part in text.split(";")]
    except ValueError:
        raise DataError(f"{where}: expected numbers separated by ';', got '{text[:60]}'") from None


def _pair(entry: Any, where: str, base: int, images: ImageFolder, unique: Callable[[str], str]) -> Pair:
    if not isinstance(entry, dict):
        raise DataError(f"{where}: must be an object with 'source' and 'target'")
    listed = [_field(entry, side, "points", where) for side in ("source", "target")]
    labels, points = _common_points(listed[0], listed[1], where)
    source, target = (
        images.ref(images.root / str(_field(entry, side, "image", where))) for side in ("source", "target")
    )
    boxes = [_box(entry[side].get("box"), base, f"{where}: {side}.box") for side in ("source", "target")]
    for side, image, found in (("source", source, points[0]), ("target", target, points[1])):
        inside(found - base, image.size, f"{where}: {side}.points in {image.path}", OWN_SLACK)
    category = str(entry.get("category", "object"))
    name = unique(str(entry.get("name") or f"{category}/{source.key}-{target.key}"))
    return Pair(name, category, source, target, points[0] - base, points[1] - base, boxes[0], boxes[1], labels)


def _field(entry: dict[str, Any], side: str, name: str, where: str) -> Any:
    part = entry.get(side)
    if not isinstance(part, dict) or part.get(name) is None:
        raise DataError(f"{where}: the field '{side}.{name}' is missing")
    return part[name]


def _common_points(source: Any, target: Any, where: str) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """Labels and points present on both sides; points are lists in the same order, or objects by name."""
    if type(source) is not type(target) or not isinstance(source, (list, dict)):
        raise DataError(f"{where}: 'points' must be a list on both sides or an object on both sides")
    if not isinstance(source, dict):
        if len(source) != len(target):
            raise DataError(f"{where}: {len(source)} source points but {len(target)} target points")
        source, target = (dict(enumerate(points)) for points in (source, target))
    labels = [label for label in source if _is_present(source[label]) and _is_present(target.get(label))]
    if not labels:
        raise DataError(f"{where}: no point is present in both images")
    points = [
        as_points([one[label] for label in labels], f"{where}: {side}.points")
        for side, one in (("source", source), ("target", target))
    ]
    return tuple(str(label) for label in labels), points


def _is_present(point: Any) -> bool:
    """Absent is null, or a point of nulls or NaNs; half a point is an error that reading it reports."""
    if point is None:
        return False
    values = point if isinstance(point, list) else [point]
    return not all(value is None or (isinstance(value, float) and value != value) for value in values)


def _box(values: Any, base: int, where: str) -> np.ndarray | None:
    if values is None:
        return None
    try:
        return np.asarray(values, dtype=np.float64).reshape(4) - base
    except (TypeError, ValueError):
        raise DataError(f"{where}: expected four numbers x0, y0, x1, y1, got {values}") from None
