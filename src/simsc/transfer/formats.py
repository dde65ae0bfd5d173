"""Labels as files: COCO, labelme, and the plain form of this project, read for one image and written for many."""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from simsc._version import __version__
from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.images import read_image
from simsc.transfer.instances import Instance, Moved, mask_to_runs, polygon_mask, runs_to_mask


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


@dataclass(frozen=True)
class Labelled:
    """A target image with what was found in it."""

    image: str
    size: Size
    found: list[Moved]


def to_coco(source: Sequence[Instance], images: Sequence[Labelled]) -> dict[str, Any]:
    """One COCO document; unmatched key-points have visibility 0, scores are in ``keypoint_scores`` and ``score``."""
    categories = _categories(source)
    annotations: list[dict[str, Any]] = []
    for image_id, image in enumerate(images, start=1):
        for moved in image.found:
            annotations.append(
                {"id": len(annotations) + 1, "image_id": image_id, **_coco_annotation(moved, categories)}
            )
    return {
        "info": {"description": f"labels transferred by simsc {__version__}"},
        "images": [
            {"id": index, "file_name": image.image, "height": image.size[0], "width": image.size[1]}
            for index, image in enumerate(images, start=1)
        ],
        "categories": list(categories.values()),
        "annotations": annotations,
    }


def _categories(source: Sequence[Instance]) -> dict[str, dict[str, Any]]:
    """Categories with the names of all their key-points."""
    names: dict[str, dict[str, None]] = {}
    for instance in source:
        names.setdefault(instance.category, {}).update(dict.fromkeys(instance.keypoints))
    return {
        category: {"id": index, "name": category, "keypoints": list(points), "skeleton": []}
        for index, (category, points) in enumerate(names.items(), start=1)
    }


def _coco_annotation(moved: Moved, categories: dict[str, dict[str, Any]]) -> dict[str, Any]:
    thing = moved.instance
    category = categories[thing.category]
    values: dict[str, Any] = {"category_id": category["id"], "iscrowd": 0, "bbox": _extent(thing), "area": 0.0}
    values["area"] = values["bbox"][2] * values["bbox"][3]
    if category["keypoints"]:
        triples = [
            (*_rounded(thing.keypoints[name]), 2) if name in thing.keypoints else (0, 0, 0)
            for name in category["keypoints"]
        ]
        values["keypoints"] = [value for triple in triples for value in triple]
        values["num_keypoints"] = len(thing.keypoints)
        values["keypoint_scores"] = [round(moved.keypoint_confidence.get(n, 0.0), 4) for n in category["keypoints"]]
    if thing.mask is not None:
        values["segmentation"] = mask_to_runs(thing.mask)
        values["area"] = int(thing.mask.sum())
    values["score"] = round(_score(moved), 4)
    return values


def _extent(thing: Instance) -> list[float]:
    """``x, y, width, height`` of the box, else of the mask, else of the key-points."""
    if thing.box is not None:
        x0, y0, x1, y1 = thing.box
    elif thing.mask is not None and thing.mask.any():
        rows, columns = np.nonzero(thing.mask)
        x0, y0, x1, y1 = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    elif thing.keypoints:
        points = np.array(list(thing.keypoints.values())) + 0.5
        x0, y0, x1, y1 = np.concatenate([points.min(axis=0), points.max(axis=0)]).tolist()
    else:
        return [0.0, 0.0, 0.0, 0.0]
    return _rounded((x0, y0, x1 - x0, y1 - y0))


def _score(moved: Moved) -> float:
    """Mean confidence of all that was moved."""
    parts = [*moved.keypoint_confidence.values(), moved.box_confidence, moved.mask_confidence]
    known = [part for part in parts if part is not None]
    return float(np.mean(known)) if known else 0.0


def to_labelme(image: Labelled) -> dict[str, Any]:
    """The labelme document of one image; every shape carries its ``confidence``."""
    return {
        "version": "5.5.0",
        "flags": {},
        "shapes": [shape for group, moved in enumerate(image.found, start=1) for shape in _shapes(moved, group)],
        "imagePath": image.image,
        "imageData": None,
        "imageHeight": image.size[0],
        "imageWidth": image.size[1],
    }


def _shapes(moved: Moved, group: int) -> list[dict[str, Any]]:
    thing = moved.instance
    shapes = [
        _shape(name, "point", [point], group, moved.keypoint_confidence[name])
        for name, point in thing.keypoints.items()
    ]
    if thing.box is not None:
        x0, y0, x1, y1 = thing.box
        shapes.append(_shape(thing.category, "rectangle", [(x0, y0), (x1, y1)], group, moved.box_confidence))
    if thing.mask is not None and thing.mask.any():
        rows, columns = np.nonzero(thing.mask)
        (top, left), (bottom, right) = (rows.min(), columns.min()), (rows.max(), columns.max())
        shape = _shape(thing.category, "mask", [(left, top), (right, bottom)], group, moved.mask_confidence)
        shapes.append({**shape, "mask": _png(thing.mask[top : bottom + 1, left : right + 1])})
    return shapes


def _shape(label: str, kind: str, points: Sequence[Any], group: int, confidence: float | None) -> dict[str, Any]:
    return {
        "label": label,
        "points": [_rounded(point) for point in points],
        "group_id": group,
        "description": "",
        "shape_type": kind,
        "flags": {},
        "mask": None,
        "confidence": None if confidence is None else round(confidence, 4),
    }


def _png(mask: np.ndarray) -> str:
    stream = io.BytesIO()
    Image.fromarray(mask.astype(np.uint8)).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode("ascii")


def _rounded(values: Sequence[Any]) -> list[float]:
    return [round(float(value), 2) for value in values]
