"""A labelled thing in an image, the same thing found in another image, and masks as run lengths and outlines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from simsc.coordinates import Size
from simsc.errors import DataError


def mask_to_runs(mask: np.ndarray) -> dict[str, Any]:
    """Uncompressed run lengths of a mask ``(H, W)``: column by column, zeros first.

    >>> mask_to_runs(np.array([[False, True], [False, True]]))
    {'size': [2, 2], 'counts': [2, 2]}
    """
    flat = np.asarray(mask, dtype=bool).ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    if flat.size and flat[0]:
        counts = [0, *counts]
    return {"size": list(mask.shape), "counts": counts}


def runs_to_mask(runs: dict[str, Any]) -> np.ndarray:
    """The mask ``(H, W)`` of uncompressed run lengths.

    >>> runs_to_mask({"size": [2, 2], "counts": [0, 1, 3]}).astype(int).tolist()
    [[1, 0], [0, 0]]
    """
    height, width = runs["size"]
    counts = runs["counts"]
    if not isinstance(counts, list) or sum(counts) != height * width:
        raise DataError("mask: expected uncompressed run lengths, a list of counts that sum to height * width")
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape((height, width), order="F")


def polygon_mask(polygons: Sequence[Sequence[tuple[float, float]]], size: Size) -> np.ndarray:
    """The union ``(H, W)`` of outlines given by their corners.

    >>> int(polygon_mask([[(1, 1), (3, 1), (3, 2), (1, 2)]], (5, 5)).sum())
    6
    """
    image = Image.new("1", (size[1], size[0]))
    for corners in polygons:
        if len(corners) >= 3:
            ImageDraw.Draw(image).polygon([(float(x), float(y)) for x, y in corners], fill=1)
    return np.array(image, dtype=bool)


@dataclass(frozen=True)
class Instance:
    """One labelled thing.

    Attributes:
        category: what it is.
        keypoints: ``(x, y)`` by name.
        box: ``x0, y0, x1, y1``: edges of the area, so the whole image is ``0, 0, W, H``.
        mask: ``(H, W)`` bool.
    """

    category: str = "object"
    keypoints: dict[str, tuple[float, float]] = field(default_factory=dict)
    box: tuple[float, float, float, float] | None = None
    mask: np.ndarray | None = None


@dataclass(frozen=True)
class Moved:
    """An instance in a target image, with confidences in [0, 1].

    Attributes:
        instance: its labels in pixels of the target; key-points without a counterpart are left out.
        keypoint_confidence: by name, of all key-points of the source.
        box_confidence, mask_confidence: None where the source has no box or mask.
    """

    instance: Instance
    keypoint_confidence: dict[str, float]
    box_confidence: float | None = None
    mask_confidence: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a line of JSON."""
        thing = self.instance
        return {
            "category": thing.category,
            "keypoints": thing.keypoints,
            "keypoint_confidence": self.keypoint_confidence,
            "box": thing.box,
            "box_confidence": self.box_confidence,
            "mask": None if thing.mask is None else mask_to_runs(thing.mask),
            "mask_confidence": self.mask_confidence,
        }

    @staticmethod
    def from_dict(value: dict[str, Any]) -> Moved:
        """The inverse of :meth:`to_dict`."""
        thing = Instance(
            category=value["category"],
            keypoints={name: (x, y) for name, (x, y) in value["keypoints"].items()},
            box=None if value["box"] is None else tuple(value["box"]),
            mask=None if value["mask"] is None else runs_to_mask(value["mask"]),
        )
        return Moved(thing, value["keypoint_confidence"], value["box_confidence"], value["mask_confidence"])
