"""Labels of an image out of files: COCO, labelme, and the plain form of this project."""

from __future__ import annotations

import base64
import binascii
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.images import FORMATS, read_image
from simsc.reading import is_file, read_json
from simsc.transfer.instances import Category, Instance, polygon_mask, runs_to_mask

_WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
"""What meeting something else than expected in a file's content raises."""


@dataclass(frozen=True)
class Source:
    """A labelled image: its file, its things, and the categories that its labels come from."""

    image: Path
    annotations: Path
    size: Size
    instances: list[Instance]
    categories: list[Category]


def find_sources(image: str | Path, annotations: str | Path | None = None) -> list[tuple[Path, Path]]:
    """Labelled images with the files of their labels.

    ``image`` is one image, a folder of images, or a COCO file whose images lie beside it (or in ``images``). Without
    ``annotations`` the labels of ``a.jpg`` are in ``a.json``; with a COCO file those of all images that it labels;
    with a folder, in the file of the image's name there.
    """
    image = Path(image)
    if image.suffix.lower() == ".json":
        return _of_coco(image)
    if image.is_dir():
        found = [(path, labels) for path in images_in(image) if (labels := _labels_of(path, annotations)).is_file()]
        if annotations is not None and Path(annotations).is_file():
            known = _labelled_names(_read(Path(annotations)))
            found = [(path, labels) for path, labels in found if path.name in known]
        if not found:
            raise DataError(f"{image}: none of its images has labels, in a JSON file of its name or in --annotations")
        return found
    labels = _labels_of(image, annotations)
    if not is_file(labels):
        raise DataError(f"{image}: has no labels: there is no {labels}; name their file with --annotations")
    return [(image, labels)]


def images_in(folder: Path) -> list[Path]:
    """All images of a folder, at any depth, in order of names."""
    from PIL import Image

    endings = {ending for ending, kind in Image.registered_extensions().items() if kind in FORMATS}
    return [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in endings and path.is_file()]


def read_source(image: Path, annotations: Path) -> Source:
    """A labelled image."""
    pixels = read_image(image)
    size = pixels.shape[0], pixels.shape[1]
    return Source(image, annotations, size, read_instances(annotations, image, size), read_categories(annotations))


def read_categories(path: str | Path) -> list[Category]:
    """The categories of a file: those that COCO lists, else those of its things in their order."""
    path = Path(path)
    value = _read(path)
    try:
        if "annotations" in value:
            return [_category(item) for item in value["categories"]]
        things = _from_labelme(value["shapes"], None) if "shapes" in value else _plain(value, path, masks=False)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except _WRONG as error:
        raise _wrong_form(path, error) from None
    names: dict[str, dict[str, None]] = {}
    for thing in things:
        names.setdefault(thing.category, {}).update(dict.fromkeys(thing.keypoints))
    return [Category(index, name, tuple(points)) for index, (name, points) in enumerate(names.items(), start=1)]


def _of_coco(path: Path) -> list[tuple[Path, Path]]:
    value = _read(path)
    names = _labelled_names(value, whole=True)
    places = [path.parent, path.parent / "images"]
    found = []
    for name in names:
        image = next((place / name for place in places if is_file(place / name)), None)
        if image is None:
            raise DataError(f"{path}: the image '{name}' is in none of {', '.join(map(str, places))}")
        found.append((image, path))
    if not found:
        raise DataError(f"{path}: holds no labelled images in COCO's form")
    return found


def _labelled_names(value: dict[str, Any], whole: bool = False) -> list[str]:
    try:
        labelled = {item["image_id"] for item in value.get("annotations", [])}
        names = [item["file_name"] for item in value.get("images", []) if item["id"] in labelled]
    except _WRONG as error:
        raise DataError(f"COCO annotations: {repr(error)[:200]} is missing or of another type") from None
    return names if whole else [Path(name).name for name in names]


def _labels_of(image: Path, annotations: str | Path | None) -> Path:
    if annotations is None:
        return image.with_suffix(".json")
    annotations = Path(annotations)
    return annotations / f"{image.stem}.json" if annotations.is_dir() else annotations


def _read(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise _wrong_form(path, f"a {type(value).__name__}")
    return value


def _wrong_form(path: Path, reason: object) -> DataError:
    return DataError(f"{path}: not of the form of COCO, labelme or plain annotations ({repr(reason)[:200]})")


def _category(item: dict[str, Any]) -> Category:
    known = {"id", "name", "keypoints", "skeleton"}
    return Category(
        id=int(item["id"]),
        name=str(item["name"]),
        keypoints=tuple(str(name) for name in item.get("keypoints") or ()),
        skeleton=tuple((int(a), int(b)) for a, b in item.get("skeleton") or ()),
        extra={key: value for key, value in item.items() if key not in known},
    )


def read_instances(path: str | Path, image: str | Path, size: Size) -> list[Instance]:
    """The labelled things of an image ``(H, W)``.

    Forms, told apart by their keys:

    - COCO (``annotations``): those of the image whose ``file_name`` ends in the image's name; key-points that a
      transfer was unsure of, and nobody has looked at since, are no labels but ``doubtful``;
    - labelme (``shapes``): points, rectangles, polygons and masks; shapes of one ``group_id`` are one thing;
    - plain: ``{"category": "cat", "keypoints": {"nose": [x, y]}, "box": [x0, y0, x1, y1], "mask": "mask.png"}``,
      or a list of these under ``instances``.
    """
    path = Path(path)
    value = _read(path)
    try:
        found = [_checked(thing, size) for thing in _instances(value, path, Path(image).name, size)]
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except _WRONG as error:
        raise _wrong_form(path, error) from None
    if not found:
        raise DataError(f"{path}: holds no key-points, boxes or masks of {Path(image).name}")
    return found


def _checked(thing: Instance, size: Size) -> Instance:
    """An instance whose labels can be of an image ``(H, W)``."""
    if not isinstance(thing.category, str) or not all(isinstance(name, str) for name in thing.keypoints):
        raise DataError("categories and names of key-points must be texts")
    if thing.mask is not None and thing.mask.shape != size:
        height, width = thing.mask.shape
        raise DataError(f"the mask of '{thing.category}' is {width}x{height}, the image {size[1]}x{size[0]}")
    far = 10 * max(size)  # a label may reach out of the image a little
    numbers = [*(value for point in thing.keypoints.values() for value in point), *(thing.box or ())]
    if not all(abs(value) <= far for value in numbers):  # also false for NaN
        raise DataError(f"a key-point or box of '{thing.category}' lies far outside of the image")
    return thing


def _instances(value: dict[str, Any], path: Path, image: str, size: Size) -> list[Instance]:
    if "annotations" in value:
        return _from_coco(value, image, size)
    if "shapes" in value:
        return _from_labelme(value["shapes"], size)
    return _plain(value, path)


def _plain(value: dict[str, Any], path: Path, masks: bool = True) -> list[Instance]:
    return [_from_plain(item, path.parent, masks) for item in value.get("instances", [value])]


def _from_plain(item: dict[str, Any], folder: Path, masks: bool = True) -> Instance:
    allowed = {"category", "keypoints", "box", "mask"}
    if extra := set(item) - allowed:
        raise DataError(f"annotation: unknown key '{min(extra)}'; allowed: {', '.join(sorted(allowed))}")
    mask = item.get("mask")
    return Instance(
        category=str(item.get("category", "object")),
        keypoints={name: _point(xy) for name, xy in item.get("keypoints", {}).items()},
        box=_box(item["box"]) if item.get("box") else None,
        mask=None if mask is None or not masks else read_image(folder / mask)[..., 0] > 127,
    )


def _from_coco(value: dict[str, Any], image: str, size: Size) -> list[Instance]:
    images = [item["id"] for item in value["images"] if Path(item["file_name"]).name == image]
    categories = {item["id"]: item for item in value["categories"]}
    return [
        _from_coco_annotation(item, categories[item["category_id"]], size)
        for item in value["annotations"]
        if item["image_id"] in images
    ]


def _from_coco_annotation(item: dict[str, Any], category: dict[str, Any], size: Size) -> Instance:
    triples = np.array(item.get("keypoints", []), dtype=float).reshape(-1, 3)
    names = category.get("keypoints") or [f"point {i + 1}" for i in range(len(triples))]
    doubtful = [
        name for name, seen in zip(names, triples[:, 2], strict=True) if "keypoint_scores" in item and seen == 1
    ]
    places = {name: (float(x), float(y)) for name, (x, y, seen) in zip(names, triples, strict=True) if seen}
    x, y, width, height = item.get("bbox") or (0, 0, 0, 0)
    return Instance(
        category=category["name"],
        keypoints={name: place for name, place in places.items() if name not in doubtful},
        doubtful=tuple(doubtful),
        box=(x, y, x + width, y + height) if width > 0 and height > 0 else None,
        mask=_coco_mask(item.get("segmentation"), size),
    )


def _coco_mask(segmentation: Any, size: Size) -> np.ndarray | None:
    if not segmentation:
        return None
    if isinstance(segmentation, dict):
        return runs_to_mask(segmentation)
    return polygon_mask([list(zip(flat[::2], flat[1::2], strict=True)) for flat in segmentation], size)


def _from_labelme(shapes: list[dict[str, Any]], size: Size | None) -> list[Instance]:
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for index, shape in enumerate(shapes):
        # Points without a group belong together; areas without one are things of their own.
        loose = "points" if shape.get("shape_type") == "point" else index
        groups[loose if shape.get("group_id") is None else ("group", shape["group_id"])].append(shape)
    return [_from_shapes(members, size) for members in groups.values()]


def _from_shapes(shapes: Sequence[dict[str, Any]], size: Size | None) -> Instance:
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for shape in shapes:
        by_kind[shape.get("shape_type") or "polygon"].append(shape)
    if unknown := set(by_kind) - {"point", "rectangle", "polygon", "mask"}:
        raise DataError(f"labelme shape of type '{min(unknown)}': allowed are point, rectangle, polygon, mask")
    areas = [shape for kind in ("rectangle", "polygon", "mask") for shape in by_kind[kind]]
    box = None
    if by_kind["rectangle"]:
        corners = np.array(by_kind["rectangle"][0]["points"], dtype=float)
        box = _box([*corners.min(axis=0), *corners.max(axis=0)])
    masks = []
    if size is not None:  # None: only names are asked for
        masks = [polygon_mask([shape["points"]], size) for shape in by_kind["polygon"]]
        masks += [_labelme_mask(shape, size) for shape in by_kind["mask"]]
    return Instance(
        category=areas[0]["label"] if areas else "object",
        keypoints={shape["label"]: _point(shape["points"][0]) for shape in by_kind["point"]},
        box=box,
        mask=np.logical_or.reduce(masks) if masks else None,
    )


def _labelme_mask(shape: dict[str, Any], size: Size) -> np.ndarray:
    try:
        cut = read_image(base64.b64decode(shape["mask"]))[..., 0] > 0
    except binascii.Error as error:
        raise DataError(f"labelme mask '{shape['label']}' is not base64 ({error})") from None
    left, top = (round(value) for value in shape["points"][0])
    mask = np.zeros(size, dtype=bool)
    mask[top : top + cut.shape[0], left : left + cut.shape[1]] = cut
    return mask


def _point(value: Any) -> tuple[float, float]:
    x, y = value
    return float(x), float(y)


def _box(value: Any) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = value
    return float(x0), float(y0), float(x1), float(y1)
