"""A labelled thing in an image, its category, the same thing found elsewhere, and masks as run lengths and outlines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.images import MAX_PIXELS
from simsc.reading import numbers


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
    whole = isinstance(counts, list) and all(isinstance(each, int) and each >= 0 for each in (height, width, *counts))
    if not whole or sum(counts) != height * width or height * width > MAX_PIXELS:
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
        doubtful: names of key-points that a transfer was unsure of and nobody has looked at; ``keypoints`` lacks them.
    """

    category: str = "object"
    keypoints: dict[str, tuple[float, float]] = field(default_factory=dict)
    box: tuple[float, float, float, float] | None = None
    mask: np.ndarray | None = None
    doubtful: tuple[str, ...] = ()


@dataclass(frozen=True)
class Category:
    """A kind of thing: what annotation files call it, and its key-points in their order.

    Attributes:
        id: its number in COCO files.
        name: unique.
        keypoints: names, in the order in which files list them.
        skeleton: pairs of numbers of key-points, counted from 1 as in COCO.
        extra: what else a COCO file says of it, for example ``supercategory``.
    """

    id: int
    name: str
    keypoints: tuple[str, ...] = ()
    skeleton: tuple[tuple[int, int], ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As in a COCO file."""
        skeleton = [list(bone) for bone in self.skeleton]
        return {**self.extra, "id": self.id, "name": self.name, "keypoints": [*self.keypoints], "skeleton": skeleton}


def merge_categories(groups: Iterable[Sequence[Category]]) -> list[Category]:
    """The categories of several files: one for each name, with all key-points; numbers stay where they are free.

    >>> one, two = Category(7, "cat", ("nose",)), Category(1, "cat", ("nose", "ear"))
    >>> [(each.id, each.keypoints) for each in merge_categories([[one], [two, Category(7, "dog")]])]
    [(7, ('nose', 'ear')), (8, ())]
    """
    merged: dict[str, Category] = {}
    for category in (each for group in groups for each in group):
        known = merged.get(category.name)
        if known is None:
            taken = {each.id for each in merged.values()}
            free = category.id if category.id not in taken else max(taken) + 1
            merged[category.name] = replace(category, id=free)
        else:
            names = tuple(dict.fromkeys([*known.keypoints, *category.keypoints]))
            merged[category.name] = replace(known, keypoints=names)
    return list(merged.values())


SURE, UNSURE, NONE = "sure", "unsure", "none"
"""What is known of a match: right, worth a look, or without a counterpart."""


@dataclass(frozen=True)
class Moved:
    """An instance in a target image, with confidences in [0, 1].

    Attributes:
        instance: its labels in pixels of the target; what has no counterpart, and what is unreliable, is left out.
        keypoint_confidence: by name, of all key-points that a source has.
        keypoint_status: ``sure``, ``unsure`` or ``none``, of the same.
        box_confidence, mask_confidence: None where no source has a box or mask.
        mirrored: names of the key-points that were found by the mirror image of a source: a left one lies at the right.
    """

    instance: Instance
    keypoint_confidence: dict[str, float] = field(default_factory=dict)
    keypoint_status: dict[str, str] = field(default_factory=dict)
    box_confidence: float | None = None
    mask_confidence: float | None = None
    mirrored: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """Mean confidence of all that was looked for."""
        parts = [*self.keypoint_confidence.values(), self.box_confidence, self.mask_confidence]
        known = [part for part in parts if part is not None]
        return float(np.mean(known)) if known else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a line of JSON."""
        thing = self.instance
        return {
            "category": thing.category,
            "keypoints": thing.keypoints,
            "keypoint_confidence": self.keypoint_confidence,
            "keypoint_status": self.keypoint_status,
            "box": thing.box,
            "box_confidence": self.box_confidence,
            "mask": None if thing.mask is None else mask_to_runs(thing.mask),
            "mask_confidence": self.mask_confidence,
            "mirrored": list(self.mirrored),
        }

    @staticmethod
    def from_dict(value: dict[str, Any]) -> Moved:
        """The inverse of :meth:`to_dict`; refuses what that did not write."""
        try:
            return Moved._of(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"not a moved label ({repr(error)[:80]})") from None

    @staticmethod
    def _of(value: dict[str, Any]) -> Moved:
        x0, y0, x1, y1 = numbers(list(value["box"] or (0, 0, 0, 0)), 4, "box").tolist()
        places = {name: numbers(list(place), 2, name).tolist() for name, place in value["keypoints"].items()}
        thing = Instance(
            category=str(value["category"]),
            keypoints={name: (x, y) for name, (x, y) in places.items()},
            box=(x0, y0, x1, y1) if value["box"] else None,
            mask=None if value["mask"] is None else runs_to_mask(value["mask"]),
        )
        scores = {name: _share(score) for name, score in value["keypoint_confidence"].items()}
        status = dict(value["keypoint_status"])
        if not set(status.values()) <= {SURE, UNSURE, NONE}:
            raise ValueError(status)
        box, mask = (
            None if value[f"{area}_confidence"] is None else _share(value[f"{area}_confidence"])
            for area in ("box", "mask")
        )
        return Moved(thing, scores, status, box, mask, tuple(map(str, value.get("mirrored", ()))))

    @staticmethod
    def certain(instance: Instance) -> Moved:
        """An instance that a person has labelled."""
        names = instance.keypoints
        box = None if instance.box is None else 1.0
        mask = None if instance.mask is None else 1.0
        return Moved(instance, dict.fromkeys(names, 1.0), dict.fromkeys(names, SURE), box, mask)


def _share(value: Any) -> float:
    return float(numbers([value], 1, "a confidence")[0])


@dataclass(frozen=True)
class Labelled:
    """An image with what is known of it."""

    image: str
    size: Size
    found: list[Moved]
