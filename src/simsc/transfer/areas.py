"""Boxes and masks out of a dense flow: where the confident part of a thing lies in another image.

What is asked of every place of the target is how far it can be trusted to show the thing: its match leads back, is
confident, and lies inside of the source's box or mask. A box encloses nearly all of that evidence, axis by axis, so
that stray matches count little. How much of the box leads back into the thing is the box's confidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simsc.coordinates import Size, cell_grid
from simsc.matcher import DenseFlow

Box = tuple[float, float, float, float]

CYCLE = 0.1
"""Cycle error, as a share of the larger side, at which trust has fallen to 1/e."""
TAIL = 0.03
"""Share of the evidence that a box leaves out at each of its sides."""
SMOOTH = 1.0
"""Smoothing, in cells, of the flow that carries masks."""
SPOT = 0.1
"""Matches within this share of the source's box are one spot."""
LEAST = 0.25
"""Boxes and masks of less confidence are dropped."""


@dataclass(frozen=True)
class Area:
    """A box and a mask ``(H, W)`` in the target with the confidence in them; None where unreliable or not asked for."""

    confidence: float
    box: Box | None = None
    mask: np.ndarray | None = None


def move_area(flow: DenseFlow, box: Box | None, mask: np.ndarray | None) -> Area:
    """The box, or the mask ``(H, W)``, or both of a thing of the source in the target of a flow."""
    inner = box if box is not None else mask_box(mask) if mask is not None else None
    around, confidence = (None, 0.0) if inner is None else carried_box(flow, inner, mask)
    if around is None or confidence < LEAST:
        return Area(confidence)
    moved = None if mask is None else _moved_mask(flow, mask, around)
    return Area(confidence, around if box is not None else None, moved)


def carried_box(flow: DenseFlow, box: Box, mask: np.ndarray | None) -> tuple[Box | None, float]:
    """The box around a thing of the source in the target of a flow, however unreliable, and its confidence."""
    half = flow.backward
    centres = _centres(half.shift.shape[:2], half.size)
    places = half.at(centres - 0.5)
    membership = _membership(places, box, mask)
    returns = np.exp(-((half.cycle_error / (CYCLE * max(half.size))) ** 2)).ravel()
    evidence = half.confidence.ravel() * returns * membership
    around = enclosing_box(evidence.reshape(half.confidence.shape), half.size)
    if around is None:
        return None, 0.0
    within = ((centres > around[:2]) & (centres < around[2:])).all(axis=1)
    showing = places[within & (membership > 0)]
    if not len(showing) or _collapsed(showing, box):
        return around, 0.0
    return around, float((returns * (membership > 0))[within].mean())


def _collapsed(places: np.ndarray, box: Box) -> bool:
    """Whether most of some places ``(n, 2)`` are one spot of a box: what an image without the thing is matched to."""
    low, high = np.quantile(places, (0.1, 0.9), axis=0)
    return bool(((high - low) < SPOT * np.array([box[2] - box[0], box[3] - box[1]])).any())


def mask_box(mask: np.ndarray) -> Box | None:
    """The box around a mask ``(H, W)``; None of an empty one."""
    rows, columns = np.nonzero(mask)
    if not len(rows):
        return None
    return float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1)


def box_iou(one: Box, two: Box) -> float:
    """Intersection over union of two boxes.

    >>> round(box_iou((0, 0, 2, 2), (1, 0, 3, 2)), 4)
    0.3333
    """
    width = min(one[2], two[2]) - max(one[0], two[0])
    height = min(one[3], two[3]) - max(one[1], two[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (one, two)]
    return width * height / (sum(areas) - width * height)


def enclosing_box(evidence: np.ndarray, size: Size, tail: float = TAIL) -> Box | None:
    """The box in an image ``(H, W)`` that leaves out a share ``tail`` of the evidence ``(h, w)`` at each side.

    >>> enclosing_box(np.array([[0.0, 1.0, 1.0, 0.0]]), (4, 8), tail=0.25)
    (3.0, 1.0, 5.0, 3.0)
    """
    if not evidence.sum() > 0:
        return None
    edges = []
    for axis in (0, 1):
        profile = evidence.sum(axis=1 - axis)
        below = np.concatenate([[0.0], np.cumsum(profile)]) / profile.sum()
        places = np.linspace(0, size[axis], len(below))
        edges.append((float(np.interp(tail, below, places)), float(np.interp(1 - tail, below, places))))
    (y0, y1), (x0, x1) = edges
    return x0, y0, x1, y1


def _membership(places: np.ndarray, box: Box, mask: np.ndarray | None) -> np.ndarray:
    """How far places ``(n, 2)`` of the source belong to the thing; without a mask, the middle of a box more."""
    if mask is not None:
        x, y = np.rint(places).astype(int).T
        inside: np.ndarray = mask[y.clip(0, mask.shape[0] - 1), x.clip(0, mask.shape[1] - 1)].astype(np.float64)
        return inside
    middle = np.array([box[0] + box[2], box[1] + box[3]]) / 2
    reach = np.array([box[2] - box[0], box[3] - box[1]]) / 2
    away = np.abs(places + 0.5 - middle) / reach
    inside = (away < 1).all(axis=1) * np.exp(-0.5 * (away**2).sum(axis=1))
    return inside


def _moved_mask(flow: DenseFlow, mask: np.ndarray, box: Box) -> np.ndarray:
    """The mask by the smooth flow, inside of the box of its confident part."""
    calm = replace(flow, backward=flow.backward.smoothed(SMOOTH))
    moved = calm.transfer_mask(mask, consistent=True)
    x0, y0, x1, y1 = box
    rows, columns = np.arange(moved.shape[0]) + 0.5, np.arange(moved.shape[1]) + 0.5
    return moved & ((rows > y0) & (rows < y1))[:, None] & ((columns > x0) & (columns < x1))


def _centres(shape: tuple[int, ...], size: Size) -> np.ndarray:
    """Middles ``(h * w, 2)`` of cells ``(h, w)`` over an image ``(H, W)``, in lengths of its area."""
    height, width = shape
    grid = cell_grid((height, width)).double().numpy() + 0.5
    scaled: np.ndarray = grid.reshape(-1, 2) * (size[1] / width, size[0] / height)
    return scaled
