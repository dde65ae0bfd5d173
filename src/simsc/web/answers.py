"""From the engine's answers to what goes over the wire and into files: JSON, COCO key-points, pictures."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from simsc.coordinates import Size
from simsc.matcher import DenseFlow
from simsc.matcher.flow import HalfFlow
from simsc.transfer.instances import SURE
from simsc.transfer.writing import VISIBILITY
from simsc.web.engine import Answer, Query
from simsc.web.schemas import Extent, ImageInfo, MatchResponse, PointMatch
from simsc.web.store import StoredImage

_DECIMALS = 5  # of a similarity: at the lowest temperature of the page this is still a fraction of a per cent
SHOWN_SIDE = 1600
WARP_SIDE = 1024
Triple = tuple[float, float, int]
"""A key-point of COCO: x, y, visibility."""


def image_info(image: StoredImage) -> ImageInfo:
    """What the owner of an image is told."""
    height, width = image.size
    return ImageInfo(id=image.id, name=image.name, width=width, height=height)


def match_response(answer: Answer, query: Query, names: Sequence[str]) -> MatchResponse:
    """All matches of an answer, under the points' names."""
    result = answer.result
    return MatchResponse(
        model=query.model,
        localizer=answer.localizer,
        temperature=result.temperature,
        model_temperature=answer.model_temperature,
        learned=answer.learned,
        calibrated=answer.calibrated,
        mirrored=result.mirrored,
        source=_extent(result.source_size),
        target=_extent(result.target_size),
        cells=_extent(answer.cells),
        convention=result.convention,
        matches=[_point_match(answer, index, name) for index, name in enumerate(names)],
    )


def _point_match(answer: Answer, index: int, name: str) -> PointMatch:
    result = answer.result
    scores = None if answer.scores is None else np.round(answer.scores[index].astype(float), _DECIMALS).tolist()
    return PointMatch(
        name=name,
        source=_point(result.source_points[index]),
        target=_point(result.points[index]),
        confidence=round(float(result.confidence[index]), 6),
        status=str(result.status[index]),  # type: ignore[arg-type]
        cycle_error=round(float(result.cycle_error[index]), 3),
        scores=scores,
    )


def _extent(size: Size) -> Extent:
    return Extent(height=size[0], width=size[1])


def _point(values: Any) -> tuple[float, float]:
    return round(float(values[0]), 3), round(float(values[1]), 3)


def to_coco(answer: MatchResponse, source: StoredImage, target: StoredImage) -> dict[str, Any]:
    """Two images with one annotation each; key-point number i of one corresponds to number i of the other.

    In the target, what a calibrated model is unsure of, and what has no counterpart, is marked as in a transfer.
    """
    names = [match.name for match in answer.matches]
    asked = [(*match.source, VISIBILITY[SURE]) for match in answer.matches]
    found = [_found(match, answer.calibrated) for match in answer.matches]
    scores = [match.confidence for match in answer.matches]
    said = {"keypoint_scores": scores, "keypoint_status": [match.status for match in answer.matches]}
    return {
        "info": {"description": f"points matched by simsc, model {answer.model}, {answer.localizer}"},
        "images": [_coco_image(number, image) for number, image in enumerate((source, target), start=1)],
        "categories": [{"id": 1, "name": "object", "keypoints": names, "skeleton": []}],
        "annotations": [
            _coco_annotation(number, points, {**said, "mirrored": answer.mirrored} if number == 2 else {})
            for number, points in enumerate((asked, found), start=1)
        ],
    }


def _found(match: PointMatch, calibrated: bool) -> Triple:
    visibility = VISIBILITY[match.status if calibrated else SURE]
    return (*match.target, visibility) if visibility else (0, 0, 0)


def to_picture(answer: MatchResponse, source: StoredImage, target: StoredImage) -> bytes:
    """Both images side by side with numbered, connected points and their names, as PNG."""
    from simsc.pictures.matches import draw_matches

    starts = np.array([match.source for match in answer.matches])
    ends = np.array([match.target for match in answer.matches])
    status = np.array([match.status for match in answer.matches]) if answer.calibrated else None
    names = [match.name if match.name != str(number) else "" for number, match in enumerate(answer.matches, start=1)]
    confidence = None if status is None else np.array([match.confidence for match in answer.matches])
    shown = draw_matches(
        source.pixels, target.pixels, starts, ends, status=status, confidence=confidence, names=names, height=480
    )
    return png(shown)


def warp_picture(flow: DenseFlow, source: np.ndarray, blend: bool) -> bytes:
    """The warped source as PNG; with ``blend``, it fades out where matches cannot be trusted."""
    colors = Image.fromarray(flow.warp(source))
    if blend:
        colors.putalpha(Image.fromarray(opacity(flow)))
    return png(colors)


def opacity(flow: DenseFlow) -> np.ndarray:
    """How visible each pixel of a warped image should be: ``(H_t, W_t)`` uint8, without hard edges.

    A place counts as far as its match is confident, leads back, and moves along with its neighbours; the best quarter
    of the places is opaque.
    """
    half = flow.backward
    trust = half.confidence * np.exp(-((half.cycle_error / flow.max_cycle) ** 2)) / (1 + (_stretch(half) / 2) ** 4)
    level = np.clip(trust / max(float(np.quantile(trust, 0.75)), 1e-9), 0, 1)
    height, width = flow.target_size
    cells = Image.fromarray(np.rint(255 * level).astype(np.uint8))
    blur = ImageFilter.GaussianBlur(1.5 * max(height / level.shape[0], width / level.shape[1]))
    smooth = np.asarray(cells.resize((width, height), Image.Resampling.BICUBIC).filter(blur)) / 255
    return np.rint(255 * smooth**2 * (3 - 2 * smooth)).astype(np.uint8)


def _stretch(half: HalfFlow) -> np.ndarray:
    """By how much the match pulls the neighbourhood of each cell apart, ``(h, w)``; 1 where it does not."""
    height, width = half.shift.shape[:2]
    cell = np.array([half.other[1] / width, half.other[0] / height])
    down, right = (np.gradient(half.shift, axis=axis) / cell for axis in (0, 1))
    jacobian = np.stack([right, down], axis=-1) + np.eye(2)
    spread: np.ndarray = np.sqrt((jacobian**2).sum(axis=(-1, -2)) / 2)
    return spread


def shown_picture(pixels: np.ndarray) -> bytes:
    """An image as the page shows it: JPEG, its longer side limited."""
    stream = io.BytesIO()
    Image.fromarray(reduced(pixels, SHOWN_SIDE)).save(stream, "JPEG", quality=92)
    return stream.getvalue()


def reduced(pixels: np.ndarray, side: int) -> np.ndarray:
    """``(H, W, 3)`` with its longer side at most ``side``."""
    height, width = reduced_size((pixels.shape[0], pixels.shape[1]), side)
    if (height, width) == pixels.shape[:2]:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR))


def reduced_size(size: Size, side: int) -> Size:
    """``(height, width)`` scaled down so that the longer one is at most ``side``.

    >>> reduced_size((3000, 4000), 1000), reduced_size((30, 40), 1000)
    ((750, 1000), (30, 40))
    """
    scale = min(side / max(size), 1)
    return max(round(size[0] * scale), 1), max(round(size[1] * scale), 1)


def png(image: Image.Image) -> bytes:
    """The bytes of a PNG file."""
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def to_json(value: dict[str, Any]) -> bytes:
    """Indented JSON as UTF-8."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


def _coco_image(number: int, image: StoredImage) -> dict[str, Any]:
    height, width = image.size
    return {"id": number, "file_name": image.name, "width": width, "height": height}


def _coco_annotation(number: int, points: list[Triple], said: dict[str, Any]) -> dict[str, Any]:
    visible = np.array([(x, y) for x, y, seen in points if seen] or [(0, 0)])
    low, high = visible.min(axis=0), visible.max(axis=0)
    box = [round(float(value), 3) for value in (*low, *(high - low))]
    annotation = {"id": number, "image_id": number, "category_id": 1, "iscrowd": 0, "bbox": box}
    annotation |= {"area": round(box[2] * box[3], 3), "keypoints": [value for point in points for value in point]}
    annotation["num_keypoints"] = sum(seen > 0 for _, _, seen in points)
    return {**annotation, **said}
