"""Labels of many images as files that annotation tools open: COCO, labelme, CVAT, Label Studio."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import numpy as np
from PIL import Image

from simsc._version import __version__
from simsc.files import write_json, write_text
from simsc.registry import Registry
from simsc.transfer.areas import mask_box
from simsc.transfer.instances import NONE, SURE, UNSURE, Category, Instance, Labelled, Moved, mask_to_runs

Writer = Callable[[Sequence[Category], Sequence[Labelled], Path], list[Path]]
"""Categories and labelled images to a file or folder; returns what was written."""

FORMATS: Registry[Writer] = Registry("format")
VISIBILITY = {NONE: 0, UNSURE: 1, SURE: 2}
"""COCO's visibility of a key-point: not labelled, labelled but not to be relied on, labelled."""


@FORMATS.register("coco")
def write_coco(categories: Sequence[Category], images: Sequence[Labelled], out: Path) -> list[Path]:
    """One COCO file; images are named relative to it."""
    write_json(out, to_coco(categories, images, out.parent))
    return [out]


def to_coco(categories: Sequence[Category], images: Sequence[Labelled], folder: Path) -> dict[str, Any]:
    """One COCO document of a folder: categories as they were read, scores in ``keypoint_scores`` and ``score``."""
    by_name = {category.name: category for category in categories}
    annotations: list[dict[str, Any]] = []
    for image_id, image in enumerate(images, start=1):
        for moved in image.found:
            values = _coco_annotation(moved, by_name[moved.instance.category])
            annotations.append({"id": len(annotations) + 1, "image_id": image_id, **values})
    return {
        "info": {"description": f"labels transferred by simsc {__version__}"},
        "images": [
            {"id": index, "file_name": _relative(image, folder), "height": image.size[0], "width": image.size[1]}
            for index, image in enumerate(images, start=1)
        ],
        "categories": [category.to_dict() for category in categories],
        "annotations": annotations,
    }


def _coco_annotation(moved: Moved, category: Category) -> dict[str, Any]:
    thing = moved.instance
    extent = _extent(thing)
    values: dict[str, Any] = {"category_id": category.id, "iscrowd": 0, "area": extent[2] * extent[3]}
    if thing.box is not None or moved.box_confidence is None:  # an unreliable box must not come back as another one
        values["bbox"] = extent
    if category.keypoints:
        triples = [_triple(thing, moved.keypoint_status, name) for name in category.keypoints]
        values["keypoints"] = [value for triple in triples for value in triple]
        values["num_keypoints"] = sum(triple[2] > 0 for triple in triples)
        values["keypoint_scores"] = [round(moved.keypoint_confidence.get(n, 0.0), 4) for n in category.keypoints]
    if thing.mask is not None:
        values["segmentation"] = mask_to_runs(thing.mask)
        values["area"] = int(thing.mask.sum())
    values["score"] = round(moved.score, 4)
    if moved.mirrored:
        values["mirrored"] = [name for name in category.keypoints if name in moved.mirrored]
    return values


def _triple(thing: Instance, status: dict[str, str], name: str) -> tuple[float, float, int]:
    if name not in thing.keypoints:
        return 0, 0, 0
    x, y = _rounded(thing.keypoints[name])
    return x, y, VISIBILITY[status.get(name, SURE)]


def _extent(thing: Instance) -> list[float]:
    """``x, y, width, height`` of the box, else of the mask, else of the key-points."""
    box = thing.box or (None if thing.mask is None else mask_box(thing.mask))
    if box is None and thing.keypoints:
        points = np.array(list(thing.keypoints.values())) + 0.5
        x0, y0, x1, y1 = np.concatenate([points.min(axis=0), points.max(axis=0)]).tolist()
        box = x0, y0, x1, y1
    if box is None:
        return [0.0, 0.0, 0.0, 0.0]
    return _rounded((box[0], box[1], box[2] - box[0], box[3] - box[1]))


@FORMATS.register("labelme")
def write_labelme(categories: Sequence[Category], images: Sequence[Labelled], out: Path) -> list[Path]:
    """One labelme file for each image, named after it; below ``out`` the images' folders are kept."""
    del categories
    files = [out / part.with_suffix(".json") for part in _below([Path(image.image) for image in images])]
    for file, image in zip(files, images, strict=True):
        write_json(file, to_labelme(image, file.parent))
    return files


def to_labelme(image: Labelled, folder: Path) -> dict[str, Any]:
    """The labelme document of one image, to be opened in a folder; every shape carries ``confidence`` and verdict."""
    return {
        "version": "5.5.0",
        "flags": {},
        "shapes": [shape for group, moved in enumerate(image.found, start=1) for shape in _shapes(moved, group)],
        "imagePath": _relative(image, folder),
        "imageData": None,
        "imageHeight": image.size[0],
        "imageWidth": image.size[1],
    }


def _below(paths: Sequence[Path]) -> list[Path]:
    """Paths relative to the folder that all of them share.

    >>> [str(path) for path in _below([Path("/a/b/c.png"), Path("/a/d.png")])]
    ['b/c.png', 'd.png']
    """
    absolute = [path.absolute() for path in paths]
    if not absolute:
        return []
    common = os.path.commonpath([path.parent for path in absolute])
    return [path.relative_to(common) for path in absolute]


def _shapes(moved: Moved, group: int) -> list[dict[str, Any]]:
    thing = moved.instance
    shapes = [
        _shape(name, "point", [point], group, moved.keypoint_confidence.get(name), _verdict(moved, name))
        for name, point in thing.keypoints.items()
    ]
    if thing.box is not None:
        x0, y0, x1, y1 = thing.box
        shapes.append(_shape(thing.category, "rectangle", [(x0, y0), (x1, y1)], group, moved.box_confidence))
    if thing.mask is not None and (box := mask_box(thing.mask)) is not None:
        left, top, right, bottom = (int(edge) for edge in box)
        corners = [(left, top), (right - 1, bottom - 1)]
        shape = _shape(thing.category, "mask", corners, group, moved.mask_confidence)
        shapes.append({**shape, "mask": _png(thing.mask[top:bottom, left:right])})
    return shapes


def _verdict(moved: Moved, name: str) -> str:
    """A key-point's status, and whether it was found in a mirror."""
    return moved.keypoint_status.get(name, "") + (", mirrored" if name in moved.mirrored else "")


def _shape(
    label: str, kind: str, points: Sequence[Any], group: int, confidence: float | None, status: str | None = None
) -> dict[str, Any]:
    return {
        "label": label,
        "points": [_rounded(point) for point in points],
        "group_id": group,
        "description": status or "",
        "shape_type": kind,
        "flags": {},
        "mask": None,
        "confidence": None if confidence is None else round(confidence, 4),
    }


@FORMATS.register("cvat")
def write_cvat(categories: Sequence[Category], images: Sequence[Labelled], out: Path) -> list[Path]:
    """One file in CVAT's format *for images 1.1*; images are named relative to the folder that they share."""
    root = xml.Element("annotations")
    xml.SubElement(root, "version").text = "1.1"
    labels = xml.SubElement(xml.SubElement(xml.SubElement(root, "meta"), "task"), "labels")
    for category in categories:
        _cvat_label(labels, category)
    names = _below([Path(image.image) for image in images])
    for index, (image, name) in enumerate(zip(images, names, strict=True)):
        facts = {"id": str(index), "name": name.as_posix(), "width": str(image.size[1]), "height": str(image.size[0])}
        element = xml.SubElement(root, "image", facts)
        for group, moved in enumerate(image.found, start=1):
            _cvat_shapes(element, moved, {each.name: each for each in categories}[moved.instance.category], group)
    xml.indent(root)
    write_text(out, '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n")
    return [out]


def _cvat_label(labels: xml.Element, category: Category) -> None:
    kinds: list[tuple[str, str, str | None]] = [(category.name, "any", None)]
    if category.keypoints:
        kinds = [(category.name, "skeleton", None), *((name, "points", category.name) for name in category.keypoints)]
    for name, kind, parent in kinds:
        label = xml.SubElement(labels, "label")
        xml.SubElement(label, "name").text = name
        xml.SubElement(label, "type").text = kind
        xml.SubElement(label, "attributes")
        if parent is not None:
            xml.SubElement(label, "parent").text = parent
        elif category.skeleton and kind == "skeleton":
            bones = "\n".join(f'<line data-node-from="{a}" data-node-to="{b}"></line>' for a, b in category.skeleton)
            xml.SubElement(label, "svg").text = bones


def _cvat_shapes(image: xml.Element, moved: Moved, category: Category, group: int) -> None:
    thing = moved.instance
    common = {"label": thing.category, "source": "auto", "occluded": "0", "z_order": "0", "group_id": str(group)}
    if category.keypoints:
        skeleton = xml.SubElement(image, "skeleton", {k: v for k, v in common.items() if k != "occluded"})
        for name in category.keypoints:
            # CVAT's coordinates are edges of pixels; a doubtful point is shown as occluded, an absent one is outside.
            x, y = (value + 0.5 for value in thing.keypoints.get(name, (-0.5, -0.5)))
            absent, doubtful = name not in thing.keypoints, moved.keypoint_status.get(name) == UNSURE
            facts = {"label": name, "source": "auto", "outside": str(int(absent)), "occluded": str(int(doubtful))}
            xml.SubElement(skeleton, "points", {**facts, "points": f"{x:.2f},{y:.2f}"})
    if thing.box is not None:
        edges = dict(zip(("xtl", "ytl", "xbr", "ybr"), (f"{edge:.2f}" for edge in thing.box), strict=True))
        xml.SubElement(image, "box", {**common, **edges})
    if thing.mask is not None and (box := mask_box(thing.mask)) is not None:
        left, top, right, bottom = (int(edge) for edge in box)
        runs = mask_to_runs(thing.mask[top:bottom, left:right].T)["counts"]  # row by row
        place = {"left": left, "top": top, "width": right - left, "height": bottom - top}
        facts = {key: str(value) for key, value in place.items()}
        xml.SubElement(image, "mask", {**common, "rle": ", ".join(map(str, runs)), **facts})


@FORMATS.register("label-studio")
def write_label_studio(categories: Sequence[Category], images: Sequence[Labelled], out: Path) -> list[Path]:
    """Tasks with predictions, and beside them the labelling configuration that they fit, as ``<out>.config.xml``."""
    configuration = out.with_suffix(".config.xml")
    write_json(out, [_task(image, out.parent) for image in images])
    write_text(configuration, label_studio_config(categories))
    return [out, configuration]


def label_studio_config(categories: Sequence[Category]) -> str:
    """The labelling configuration of a Label Studio project for some categories."""
    view = xml.Element("View")
    xml.SubElement(view, "Image", {"name": "image", "value": "$image"})
    names = [category.name for category in categories]
    points = dict.fromkeys(name for category in categories for name in category.keypoints)
    for tag, name, values in (
        ("KeyPointLabels", "points", points),
        ("RectangleLabels", "boxes", names),
        ("BrushLabels", "masks", names),
    ):
        if values:
            control = xml.SubElement(view, tag, {"name": name, "toName": "image"})
            for value in values:
                xml.SubElement(control, "Label", {"value": value})
    xml.indent(view)
    return xml.tostring(view, encoding="unicode") + "\n"


def _task(image: Labelled, folder: Path) -> dict[str, Any]:
    """Local files are served by Label Studio under this address, relative to its document root."""
    results = [result for group, moved in enumerate(image.found) for result in _results(moved, image, group)]
    score = float(np.mean([moved.score for moved in image.found])) if image.found else 0.0
    prediction = {"model_version": f"simsc {__version__}", "score": round(score, 4), "result": results}
    return {"data": {"image": f"/data/local-files/?d={_relative(image, folder)}"}, "predictions": [prediction]}


def _results(moved: Moved, image: Labelled, group: int) -> list[dict[str, Any]]:
    thing, (height, width) = moved.instance, image.size
    found: list[tuple[str, str, str, dict[str, Any], float | None]] = []
    for name, (x, y) in thing.keypoints.items():
        value = {"x": 100 * (x + 0.5) / width, "y": 100 * (y + 0.5) / height, "width": 0.75}
        found.append(("keypointlabels", "points", name, value, moved.keypoint_confidence.get(name)))
    if thing.box is not None:
        x0, y0, x1, y1 = thing.box
        value = {"x": 100 * x0 / width, "y": 100 * y0 / height, "rotation": 0}
        value |= {"width": 100 * (x1 - x0) / width, "height": 100 * (y1 - y0) / height}
        found.append(("rectanglelabels", "boxes", thing.category, value, moved.box_confidence))
    if thing.mask is not None:
        runs = {"format": "rle", "rle": brush_runs(thing.mask)}
        found.append(("brushlabels", "masks", thing.category, runs, moved.mask_confidence))
    return [
        {
            "id": f"{kind[0]}{group}-{index}",
            "type": kind,
            "from_name": control,
            "to_name": "image",
            "original_width": width,
            "original_height": height,
            "image_rotation": 0,
            "value": {**value, kind: [label]},
            "score": round(confidence or 0.0, 4),
        }
        for index, (kind, control, label, value, confidence) in enumerate(found)
    ]


def brush_runs(mask: np.ndarray) -> list[int]:
    """A mask ``(H, W)`` as Label Studio's brush stores it: packed run lengths of its RGBA bytes, as bytes.

    A head (length, word size, four sizes of runs), then for each run a flag, which of the sizes, the length, the value.
    """
    runs = mask_to_runs(np.asarray(mask, dtype=bool).T)["counts"]  # row by row, zeros first
    bits = [f"{4 * mask.size:032b}", f"{8 - 1:05b}", *(f"{size - 1:04b}" for size in (3, 4, 8, 16))]
    for index, count in enumerate(runs):
        left = 4 * count
        while left > 0:
            length = min(left, 2**16)
            choice = next(i for i, size in enumerate((3, 4, 8, 16)) if length <= 2**size)
            bits.append(f"1{choice:02b}{length - 1:0{(3, 4, 8, 16)[choice]}b}{255 * (index % 2):08b}")
            left -= length
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    return [int(text[start : start + 8], 2) for start in range(0, len(text), 8)]


def _relative(image: Labelled, folder: Path) -> str:
    """An image's path from a folder, with forward slashes."""
    try:
        return Path(os.path.relpath(image.image, folder)).as_posix()
    except ValueError:  # another drive
        return Path(image.image).absolute().as_posix()


def _png(mask: np.ndarray) -> str:
    stream = io.BytesIO()
    Image.fromarray(mask.astype(np.uint8)).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode("ascii")


def _rounded(values: Sequence[Any]) -> list[float]:
    return [round(float(value), 2) for value in values]
