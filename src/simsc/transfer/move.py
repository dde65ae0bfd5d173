"""Instances of one image found in another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.matcher import DenseFlow, EncodedImage, Matcher
from simsc.transfer.instances import Instance, Moved

GRID = 7
"""Points per side that are matched inside of a box."""

Box = tuple[float, float, float, float]
SMOOTH = 1.0
"""Smoothing, in cells, of the flow that carries masks."""


def box_points(box: Box, size: Size, count: int = GRID) -> np.ndarray:
    """A regular grid ``(count ** 2, 2)`` of pixel positions in a box, kept inside of the image ``(H, W)``."""
    steps = (np.arange(count) + 0.5) / count
    x = box[0] + steps * (box[2] - box[0]) - 0.5
    y = box[1] + steps * (box[3] - box[1]) - 0.5
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return grid.clip(0, (size[1] - 1, size[0] - 1))


def move_box(box: Box, start: np.ndarray, end: np.ndarray, size: Size) -> Box:
    """The box after the motion that takes points ``start (n, 2)`` to ``end (n, 2)``, cut to the image ``(H, W)``.

    Each axis has a scale and a shift of its own, medians over all pairs of points, so that stray matches count
    little; the scale of a mirrored thing is negative.

    >>> points = box_points((0, 0, 10, 20), (50, 50))
    >>> [round(edge, 6) for edge in move_box((0, 0, 10, 20), points, points * 2 + (5.5, 0.5), (50, 50))]
    [5.0, 0.0, 25.0, 40.0]
    """
    edges = []
    for axis, length in ((0, size[1]), (1, size[0])):
        scale, shift = _median_line(start[:, axis] + 0.5, end[:, axis] + 0.5)
        low, high = sorted((box[axis] * scale + shift, box[axis + 2] * scale + shift))
        edges.append((min(max(low, 0.0), float(length)), min(max(high, 0.0), float(length))))
    (x0, x1), (y0, y1) = edges
    return x0, y0, x1, y1


def _median_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope and offset of the line through most of the points (Theil and Sen)."""
    run, rise = x[:, None] - x, y[:, None] - y
    apart = run > 1e-6
    slope = float(np.median(rise[apart] / run[apart])) if apart.any() else 1.0
    return slope, float(np.median(y - slope * x))


class Mover:
    """Carries the instances of one source image over to target images.

    Args:
        matcher: finds the points.
        source: the labelled image.
        instances: its labels; refused where they lie outside of the image.
        min_confidence, max_cycle: key-points beyond these limits are left out.
    """

    def __init__(
        self,
        matcher: Matcher,
        source: EncodedImage,
        instances: Sequence[Instance],
        *,
        min_confidence: float | None = None,
        max_cycle: float | None = None,
    ) -> None:
        self.matcher, self.source, self.instances = matcher, source, list(instances)
        self.limits = {"min_confidence": min_confidence, "max_cycle": max_cycle}
        for instance in self.instances:
            check_instance(instance, source.size)

    def move(self, target: EncodedImage) -> list[Moved]:
        """All instances in a target."""
        flow = None
        if any(instance.mask is not None for instance in self.instances):
            flow = self.matcher.dense(self.source, target, smooth=SMOOTH)
        return [self._move(instance, target, flow) for instance in self.instances]

    def _move(self, instance: Instance, target: EncodedImage, flow: DenseFlow | None) -> Moved:
        names = list(instance.keypoints)
        found = self.matcher.match(self.source, target, list(instance.keypoints.values()), **self.limits)
        kept = {
            name: (float(x), float(y))
            for name, (x, y), good in zip(names, found.points, found.matched, strict=True)
            if good
        }
        box, box_confidence = self._move_box(instance.box, target)
        mask, mask_confidence = _move_mask(instance.mask, flow)
        return Moved(
            Instance(instance.category, kept, box, mask),
            dict(zip(names, map(float, found.confidence), strict=True)),
            box_confidence,
            mask_confidence,
        )

    def _move_box(self, box: Box | None, target: EncodedImage) -> tuple[Box | None, float | None]:
        if box is None:
            return None, None
        found = self.matcher.match(self.source, target, box_points(box, self.source.size))
        moved = move_box(box, found.source_points, found.points, target.size)
        return moved, float(found.confidence.mean())


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


def _move_mask(mask: np.ndarray | None, flow: DenseFlow | None) -> tuple[np.ndarray | None, float | None]:
    if mask is None or flow is None:
        return None, None
    moved = flow.transfer_mask(mask, consistent=True)
    return moved, float(flow.confidence[moved].mean()) if moved.any() else 0.0
