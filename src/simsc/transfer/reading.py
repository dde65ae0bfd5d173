"""Labels of one image from a file: COCO, labelme, or the plain form of this project."""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.images import read_image
from simsc.transfer.instances import Instance
from simsc.transfer.runs import polygon_mask, runs_to_mask


def read_instances(path: str | Path, image: str | Path, size: Size) -> list[Instance]:
    """The labelled things of an image ``(H, W)``.

    Forms, told apart by their keys:

    - COCO (``annotations``): those of the image whose ``file_name`` ends in the image's name;
    - labelme (``shapes``): points, rectangles, polygons and masks; shapes of one ``group_id`` are one thing;
    - plain: ``{"category": "cat", "keypoints": {"nose": [x, y]}, "box": [x0, y0, x1, y1], "mask": "mask.png"}``,
      or a list of these under ``instances``.
    """
    path = Path(path)
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: the annotations cannot be read ({error})") from None
    try:
        found = _instances(value, path, Path(image).name, size)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(f"{path}: not of the form of COCO, labelme or plain annotations ({error!r})") from None
    if not found:
        raise DataError(f"{path}: holds no key-points, boxes or masks of {Path(image).name}")
    return found


def _instances(value: dict[str, Any], path: Path, image: str, size: Size) -> list[Instance]:
    if "annotations" in value:
        return _from_coco(value, image, size)
    if "shapes" in value:
        return _from_labelme(value["shapes"], size)
    return [_from_plain(item, path.parent) for item in value.get("instances", [value])]


def _from_plain(item: dict[str, Any], folder: Path) -> Instance:
    allowed = {"category", "keypoints", "box", "mask"}
    if extra := set(item) - allowed:
        raise DataError(f"annotation: unknown key '{min(extra)}'; allowed: {', '.join(sorted(allowed))}")
    mask = item.get("mask")
    return Instance(
        category=str(item.get("category", "object")),
        keypoints={name: _point(xy) for name, xy in item.get("keypoints", {}).items()},
        box=_box(item["box"]) if item.get("box") else None,
        mask=None if mask is None else read_image(folder / mask)[..., 0] > 127,
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
    x, y, width, height = item.get("bbox") or (0, 0, 0, 0)
    return Instance(
        category=category["name"],
        keypoints={name: (float(px), float(py)) for name, (px, py, seen) in zip(names, triples, strict=True) if seen},
        box=(x, y, x + width, y + height) if width > 0 and height > 0 else None,
        mask=_coco_mask(item.get("segmentation"), size),
    )


def _coco_mask(segmentation: Any, size: Size) -> np.ndarray | None:
    if not segmentation:
        return None
    if isinstance(segmentation, dict):
        return runs_to_mask(segmentation)
    return polygon_mask([list(zip(flat[::2], flat[1::2], strict=True)) for flat in segmentation], size)


def _from_labelme(shapes: list[dict[str, Any]], size: Size) -> list[Instance]:
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for index, shape in enumerate(shapes):
        # Points without a group belong together; areas without one are things of their own.
        loose = "points" if shape.get("shape_type") == "point" else index
        groups[loose if shape.get("group_id") is None else ("group", shape["group_id"])].append(shape)
    return [_from_shapes(members, size) for members in groups.values()]


def _from_shapes(shapes: list[dict[str, Any]], size: Size) -> Instance:
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
