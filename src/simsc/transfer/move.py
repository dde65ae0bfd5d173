"""The things of labelled images found in another one: each key-point by the source that knows it best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.matcher import EncodedImage, Matcher
from simsc.matching.mirror import Mirror
from simsc.transfer.areas import Area, move_area
from simsc.transfer.instances import NONE, SURE, UNSURE, Instance, Moved

Slot = tuple[str, int]
"""A thing of a target: its category, and the how-manieth of it in each source."""


@dataclass(frozen=True)
class Labels:
    """An encoded image with its labelled things."""

    image: EncodedImage
    instances: Sequence[Instance]


@dataclass(frozen=True)
class _Point:
    place: tuple[float, float]
    confidence: float
    status: str
    mirrored: bool = False

    @property
    def rank(self) -> tuple[int, float]:
        return (NONE, UNSURE, SURE).index(self.status), self.confidence


class Mover:
    """Carries the things of labelled images over to target images.

    The first cat of every source is the same thing of a target, so are the second ones. The source with the highest
    confidence wins, for each key-point, and for box and mask.

    Args:
        matcher: finds the points.
        sources: the labelled images; labels that lie outside of them are refused.
        min_confidence, max_cycle: key-points beyond these limits are left out.
        mirror: as in :meth:`simsc.Matcher.match`; sources then need to be encoded with their mirror images.
    """

    def __init__(
        self,
        matcher: Matcher,
        sources: Sequence[Labels],
        *,
        min_confidence: float | None = None,
        max_cycle: float | None = None,
        mirror: Mirror = "no",
    ) -> None:
        self.matcher, self.sources, self.mirror = matcher, list(sources), mirror
        self.limits: dict[str, Any] = {"min_confidence": min_confidence, "max_cycle": max_cycle}
        for source in self.sources:
            for instance in source.instances:
                check_instance(instance, source.image.size)

    def move(self, target: EncodedImage) -> list[Moved]:
        """All things in a target."""
        points: dict[Slot, dict[str, _Point]] = {}
        boxes: dict[Slot, list[Area]] = {}
        masks: dict[Slot, list[Area]] = {}
        for source in self.sources:
            slots = _slots(source.instances)
            found = self._points(source, target)
            areas = self._areas(source, target)
            for slot, instance, mine, area in zip(slots, source.instances, found, areas, strict=True):
                best = points.setdefault(slot, {})
                for name, point in mine.items():
                    best[name] = max(best.get(name, point), point, key=lambda each: each.rank)
                if instance.box is not None and area is not None:
                    boxes.setdefault(slot, []).append(area)
                if instance.mask is not None and area is not None:
                    masks.setdefault(slot, []).append(area)
        return [_moved(slot[0], points[slot], boxes.get(slot, []), masks.get(slot, [])) for slot in points]

    def _points(self, source: Labels, target: EncodedImage) -> list[dict[str, _Point]]:
        """The key-points of each thing of a source; all of them are matched at once."""
        names = [list(instance.keypoints) for instance in source.instances]
        places = [place for instance in source.instances for place in instance.keypoints.values()]
        result = self.matcher.match(source.image, target, places, **self.limits, mirror=self.mirror)
        rows = zip(result.points.tolist(), result.confidence.tolist(), result.status.tolist(), strict=True)
        found = iter([_Point((x, y), confidence, status, result.mirrored) for (x, y), confidence, status in rows])
        return [{name: next(found) for name in mine} for mine in names]

    def _areas(self, source: Labels, target: EncodedImage) -> list[Area | None]:
        """Box and mask of each thing of a source; None where it has neither."""
        if all(instance.box is None and instance.mask is None for instance in source.instances):
            return [None] * len(source.instances)
        flow = self.matcher.dense(source.image, target, mirror=self.mirror)
        return [
            None if instance.box is None and instance.mask is None else move_area(flow, instance.box, instance.mask)
            for instance in source.instances
        ]


def completed(own: Sequence[Instance], found: Sequence[Moved]) -> list[Moved]:
    """The labels of an image, and in the place of the doubtful ones what was found now."""
    fresh = dict(zip(_slots([moved.instance for moved in found]), found, strict=True))
    return [_completed(instance, fresh.get(slot)) for slot, instance in zip(_slots(own), own, strict=True)]


def _completed(own: Instance, found: Moved | None) -> Moved:
    settled = Moved.certain(own)
    if found is None:
        return settled
    names = [name for name in own.doubtful if name in found.keypoint_status]
    places = {name: found.instance.keypoints[name] for name in names if name in found.instance.keypoints}
    return replace(
        settled,
        instance=replace(own, keypoints={**own.keypoints, **places}, doubtful=()),
        keypoint_confidence={
            **settled.keypoint_confidence,
            **{name: found.keypoint_confidence[name] for name in names},
        },
        keypoint_status={**settled.keypoint_status, **{name: found.keypoint_status[name] for name in names}},
        mirrored=tuple(name for name in found.mirrored if name in names),
    )


def _slots(instances: Sequence[Instance]) -> list[Slot]:
    """What each thing of a source is in a target.

    >>> _slots([Instance("cat"), Instance("dog"), Instance("cat")])
    [('cat', 0), ('dog', 0), ('cat', 1)]
    """
    seen: Counter[str] = Counter()
    slots = []
    for instance in instances:
        slots.append((instance.category, seen[instance.category]))
        seen[instance.category] += 1
    return slots


def _moved(category: str, points: dict[str, _Point], boxes: Sequence[Area], masks: Sequence[Area]) -> Moved:
    box = max(boxes, key=lambda area: area.confidence, default=None)
    mask = max(masks, key=lambda area: area.confidence, default=None)
    return Moved(
        Instance(
            category,
            {name: point.place for name, point in points.items() if point.status != NONE},
            None if box is None else box.box,
            None if mask is None else mask.mask,
        ),
        {name: point.confidence for name, point in points.items()},
        {name: point.status for name, point in points.items()},
        None if box is None else box.confidence,
        None if mask is None else mask.confidence,
        tuple(name for name, point in points.items() if point.mirrored),
    )


def check_instance(instance: Instance, size: Size) -> None:
    """Refuse labels that do not lie in the image ``(H, W)``."""
    height, width = size
    for name, (x, y) in instance.keypoints.items():
        if not (-0.5 <= x <= width - 0.5 and -0.5 <= y <= height - 0.5):
            raise DataError(
                f"key-point '{name}' at ({x:g}, {y:g}) lies outside of the image of {width}x{height} pixels"
            )
    if instance.box is not None:
        x0, y0, x1, y1 = instance.box
        if not (x0 < x1 and y0 < y1 and x0 < width and y0 < height and x1 > 0 and y1 > 0):
            raise DataError(f"box {instance.box} is empty or lies outside of the image of {width}x{height} pixels")
    if instance.mask is not None and instance.mask.shape != size:
        raise DataError(f"mask of shape {instance.mask.shape}: expected the image's (height, width), {size}")
