"""Instances of one image found in another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.matcher import DenseFlow, EncodedImage, Matcher
from simsc.transfer.boxes import Box, box_points, move_box
from simsc.transfer.instances import Instance, Moved

SMOOTH = 1.0
"""Smoothing, in cells, of the flow that carries masks."""


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
