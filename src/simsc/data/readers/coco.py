"""Key-points in COCO's JSON format: users' own, and VOC's; pairs are formed inside each category.

``root`` is the JSON file, or a folder with ``train.json``, ``val.json``, ``test.json``. A single file is a test set.
Coordinates are 0-based, as in COCO.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from simsc.data.catalog import Dataset, DatasetInfo
from simsc.data.readers.building import OFFICIAL_SLACK, OWN_SLACK, ImageFolder, inside
from simsc.data.readers.reading import as_points, finite_box, four_numbers, split_file
from simsc.data.records import Annotated, ImageRef
from simsc.errors import DataError
from simsc.reading import read_json, typed_field


class Coco(Dataset):
    """Users' own labelled objects (visibility above 0)."""

    info = DatasetInfo(
        name="coco",
        title="Own key-points in COCO format",
        splits=("train", "val", "test"),
        threshold="bbox",
        by_hand="give your JSON file, or the folder with train.json, val.json and test.json, as --root",
    )
    slack = OWN_SLACK

    def objects(self, root: Path, split: str) -> list[Annotated]:
        """The objects of a file, category by category."""
        path = split_file(root, split, (".json",))
        content = read_json(path)
        tables = {name: _table(content, name, path) for name in ("images", "categories", "annotations")}
        found = _objects(tables, path, self.slack)
        order = {number: place for place, number in enumerate(dict.fromkeys(number for number, _ in found))}
        return [one for _, one in sorted(found, key=lambda item: order[item[0]])]


class VOC(Coco):
    """VOC 2011 photographs with the Berkeley key-points."""

    info = DatasetInfo(
        name="voc",
        title="VOC key-points",
        splits=("train", "val"),
        threshold="bbox",
        folders=("voc", "voc-keypoints"),
        markers=("train.json", "val.json"),
        licence="research use; the photographs are PASCAL VOC's, under the terms of Flickr",
        citation="Everingham et al.: The PASCAL Visual Object Classes Challenge. IJCV 2010 (photographs); "
        "Bourdev, Malik: Poselets. ICCV 2009 (key-points)",
        homepage="http://host.robots.ox.ac.uk/pascal/VOC/voc2011/",
        by_hand="convert the Berkeley key-points of VOC 2011 to COCO's format and give the folder with train.json, "
        "val.json and images as --root",
    )
    slack = OFFICIAL_SLACK


COCO = Coco()
VOC_KEYPOINTS = VOC()


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


def _objects(tables: dict[str, list[Any]], path: Path, slack: float) -> list[tuple[int, Annotated]]:
    """Labelled objects with the number of their category, in the order of the file."""
    categories = {typed_field(entry, "id", int, f"{path}: categories"): entry for entry in tables["categories"]}
    images = _Images(path, tables["images"])
    objects = []
    for index, annotation in enumerate(tables["annotations"]):
        where = f"{path}: annotation {annotation.get('id', index)}"
        number = typed_field(annotation, "category_id", int, where)
        if number not in categories:
            raise DataError(f"{where}: 'category_id' {number} is not in 'categories'")
        category = categories[number]
        if annotation.get("iscrowd") or "keypoints" not in category:
            continue  # a crowd, or a category that has boxes only
        names = tuple(str(name) for name in typed_field(category, "keypoints", list, f"{path}: category {number}"))
        points, present = keypoints_of(annotation, len(names), where)
        if not present.any():
            continue
        image = images.ref(typed_field(annotation, "image_id", int, where), where)
        inside(points[present], image.size, f"{where}, in {image.path}", slack)
        title, name = str(category.get("name", number)), str(annotation.get("id", index))
        box = box_of(annotation, where)
        objects.append((number, Annotated(name, title, image, points, present, box, names)))
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
