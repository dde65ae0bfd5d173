"""Users' own key-points in COCO's JSON format; pairs are formed inside each category.

``root`` is the JSON file, or a folder with ``train.json``, ``val.json``, ``test.json``. A single file is a test set.
Coordinates are 0-based, as in COCO.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from simsc.data.pairing import Annotated, form_pairs
from simsc.data.readers.building import OWN_SLACK, ImageFolder
from simsc.data.readers.own_files import split_file
from simsc.data.readers.reading import as_points, finite_box, four_numbers, read_json, typed_field
from simsc.data.records import ImageRef, Pair
from simsc.errors import DataError

PAIRS_PER_CATEGORY = 1000


def read_pairs(
    root: Path, split: str, *, pairs_per_category: int | None = PAIRS_PER_CATEGORY, seed: int = 0
) -> list[Pair]:
    """Pairs of labelled objects (visibility above 0) of one category in different images.

    Args:
        root: JSON file or folder.
        split: ``train``, ``val`` or ``test``.
        pairs_per_category: at most so many pairs are drawn per category; ``None`` takes all.
        seed: of the draw.
    """
    path = split_file(root, split, (".json",))
    content = read_json(path)
    tables = {name: _table(content, name, path) for name in ("images", "categories", "annotations")}
    categories = {typed_field(entry, "id", int, f"{path}: categories"): entry for entry in tables["categories"]}
    objects = _objects(tables, categories, path)
    pairs: list[Pair] = []
    for number, members in objects.items():
        entry = categories[number]
        pairs += form_pairs(
            str(entry.get("name", number)),
            members,
            limit=pairs_per_category,
            seed=seed,
            point_names=[str(name) for name in entry["keypoints"]],
            slack=OWN_SLACK,
        )
    return pairs


def keypoints_of(annotation: Any, count: int, where: str) -> tuple[np.ndarray, np.ndarray]:
    """``(K, 2)`` points and ``(K,)`` whether labelled, from COCO's flat list x, y, visibility."""
    try:
        values = np.asarray(annotation["keypoints"], dtype=np.float64).reshape(-1, 3)
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{where}: the field 'keypoints' must be a list of x, y, visibility") from None
    if len(values) != count:
        raise DataError(f"{where}: 'keypoints' holds {len(values)} points, its category has {count}")
    present = values[:, 2] > 0
    points = as_points(values[:, :2], where)
    if not np.isfinite(points[present]).all():
        raise DataError(f"{where}: 'keypoints' holds a labelled point that is not a finite number")
    return points, present


def box_of(annotation: dict[str, Any], where: str) -> np.ndarray | None:
    """x0, y0, x1, y1 from COCO's ``bbox`` left, top, width, height."""
    values = four_numbers(annotation.get("bbox"), f"{where}: bbox")
    return None if values is None else finite_box([*values[:2], *(values[:2] + values[2:])], where)


def _objects(tables: dict[str, list[Any]], categories: dict[int, Any], path: Path) -> dict[int, list[Annotated]]:
    images = _Images(path, tables["images"])
    objects: dict[int, list[Annotated]] = defaultdict(list)
    for index, annotation in enumerate(tables["annotations"]):
        where = f"{path}: annotation {annotation.get('id', index)}"
        number = typed_field(annotation, "category_id", int, where)
        if number not in categories:
            raise DataError(f"{where}: 'category_id' {number} is not in 'categories'")
        if annotation.get("iscrowd") or "keypoints" not in categories[number]:
            continue  # a crowd, or a category that has boxes only
        count = len(typed_field(categories[number], "keypoints", list, f"{path}: category {number}"))
        points, present = keypoints_of(annotation, count, where)
        if present.any():
            image = images.ref(typed_field(annotation, "image_id", int, where), where)
            name = f"{annotation.get('id', index)}"
            objects[number].append(Annotated(name, image, points, present, box_of(annotation, where)))
    return objects


class _Images:
    """The image table: finds each file in the usual places beside the JSON file."""

    def __init__(self, path: Path, entries: list[Any]) -> None:
        self.entries = {typed_field(entry, "id", int, f"{path}: images"): entry for entry in entries}
        self.places = [path.parent, path.parent / "images", path.parent.parent / "images", path.parent.parent]
        self.places += [path.parent / path.stem, path.parent.parent / path.stem, path.parent.parent / "data"]
        self.folder = ImageFolder(path.parent.parent, keep_suffix=True)

    def ref(self, number: int, where: str) -> ImageRef:
        if number not in self.entries:
            raise DataError(f"{where}: 'image_id' {number} is not in 'images'")
        name = typed_field(self.entries[number], "file_name", str, f"{where}: image {number}")
        for place in self.places:
            if (place / name).is_file():
                return self.folder.ref(place / name)
        looked = ", ".join(str(place) for place in self.places)
        raise DataError(f"{where}: the image '{name}' is in none of {looked}")


def _table(content: Any, name: str, path: Path) -> list[Any]:
    table = content.get(name) if isinstance(content, dict) else None
    if not isinstance(table, list) or not all(isinstance(entry, dict) for entry in table):
        raise DataError(f"{path}: the field '{name}' must be a list of objects, as in COCO")
    return table
