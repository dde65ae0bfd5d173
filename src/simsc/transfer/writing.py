"""Labels of many images as COCO or labelme files, which CVAT and other tools import."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from simsc._version import __version__
from simsc.coordinates import Size
from simsc.transfer.instances import Instance, Moved
from simsc.transfer.runs import mask_to_runs


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
