"""What a match says about every point."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from simsc.coordinates import Convention, Size, aligns_corners
from simsc.matching.scores import ScoreMaps


@dataclass(frozen=True)
class MatchResult:
    """Where points of the source lie in the target; sizes are ``(height, width)`` of the images as shown.

    Attributes:
        source_points: ``(n, 2)`` xy, the queries, in pixels of the source.
        points: ``(n, 2)`` xy in pixels of the target; the best guess also where ``matched`` is False.
        confidence: ``(n,)`` in [0, 1], probability that the match is right (within a tenth of the object's larger side)
            where the model has a calibration; else that of the most likely cell.
        cycle_error: ``(n,)`` pixels of the source between a query and where its match leads back to.
        matched: ``(n,)`` bool, whether there is a counterpart and the match passes the limits that were asked for.
        status: ``(n,)`` of ``sure``, ``unsure`` and ``none``; a model without a calibration is never sure.
        peak: ``(n,)`` probability of the most likely cell.
        signals: ``(n, k)`` what the confidence is computed from, see :mod:`simsc.matching.signals`.
        temperature: effective temperature of the pair, the product of both images' temperatures.
        scorer, cells: what the heat-maps are computed from when they are asked for.
        convention: how the target's cells and pixels relate.
    """

    source_points: np.ndarray
    points: np.ndarray
    confidence: np.ndarray
    cycle_error: np.ndarray
    matched: np.ndarray
    status: np.ndarray
    peak: np.ndarray
    temperature: float
    source_size: Size
    target_size: Size
    scorer: ScoreMaps = field(repr=False, compare=False)
    cells: torch.Tensor = field(repr=False, compare=False)
    signals: np.ndarray = field(repr=False, compare=False)
    convention: Convention = "center"

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def heatmaps(self) -> np.ndarray:
        """``(n, h, w)`` probabilities over the target's cells, each summing to 1; computed on first use."""
        with torch.inference_mode():
            scores = self.scorer(self.cells[None])[0]
            return torch.softmax(scores.flatten(1), dim=1).view_as(scores).cpu().numpy()

    def heatmap_image(self, index: int, size: Size | None = None) -> np.ndarray:
        """The heat-map of one point, up-sampled to the target as shown or to ``size``: ``(H, W)``."""
        return upsample(self.heatmaps[index], size or self.target_size, self.convention)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and dictionaries, for JSON."""
        rows = zip(
            self.source_points, self.points, self.confidence, self.cycle_error, self.matched, self.status, strict=True
        )
        return {
            "source": _extent(self.source_size),
            "target": _extent(self.target_size),
            "temperature": self.temperature,
            "matches": [
                {
                    "source": _rounded(source),
                    "target": _rounded(target),
                    "confidence": round(float(confidence), 6),
                    "cycle_error": round(float(error), 3),
                    "matched": bool(matched),
                    "status": str(status),
                }
                for source, target, confidence, error, matched, status in rows
            ],
        }


def upsample(values: np.ndarray, size: Size, convention: Convention = "center") -> np.ndarray:
    """Bilinear up-sampling of values ``(h, w)`` or ``(h, w, c)`` over an image of ``size``, float32.

    Cells and pixels both tile the image, so one resize leads from the cells to the pixels as shown.

    >>> upsample(np.array([[0.0, 1.0]]), (1, 4)).tolist()
    [[0.0, 0.25, 0.75, 1.0]]
    """
    maps = torch.from_numpy(np.asarray(values, dtype=np.float32))
    planes = maps[None] if maps.ndim == 2 else maps.permute(2, 0, 1)
    large = F.interpolate(planes[None], size=size, mode="bilinear", align_corners=aligns_corners(convention))[0]
    return (large[0] if maps.ndim == 2 else large.permute(1, 2, 0)).numpy()


def _extent(size: Size) -> dict[str, int]:
    return {"width": size[1], "height": size[0]}


def _rounded(point: np.ndarray) -> list[float]:
    return [round(float(value), 3) for value in point]
