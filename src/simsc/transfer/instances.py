"""A labelled thing in an image, and the same thing found in another image."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simsc.transfer.runs import mask_to_runs, runs_to_mask


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
