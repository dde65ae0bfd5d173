"""Scoring: predictions to PCK under a named protocol. Needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import resize_boxes
from simsc.engine.predictions import Prediction
from simsc.errors import DataError
from simsc.frames import Frame
from simsc.metrics.pck import ALPHAS, Threshold, threshold_base
from simsc.metrics.protocols import Protocol


def score(
    predictions: Sequence[Prediction], protocol: Protocol, threshold: Threshold, alphas: Sequence[float] = ALPHAS
) -> dict[str, Any]:
    """PCK per image, per point and per category, and the mean and std of the effective temperature.

    Args:
        predictions: in original pixels.
        protocol: says in which frame distances are measured.
        threshold: the data set's base, ``img``, ``kps`` or ``bbox``.
        alphas: fractions of the base.
    """
    from simsc.metrics.metric import PCK

    if not predictions:
        raise DataError("there are no predictions to score")
    frames = [_measuring_frame(item, protocol) for item in predictions]
    truth, mask = _pad(
        [frame_points(item.target_points, frame) for item, frame in zip(predictions, frames, strict=True)]
    )
    predicted, _ = _pad([frame_points(item.predicted, frame) for item, frame in zip(predictions, frames, strict=True)])
    sizes = torch.tensor(
        [frame.canvas if frame else item.target_size for item, frame in zip(predictions, frames, strict=True)]
    )
    base = threshold_base(
        threshold, points=truth, mask=mask, image_size=sizes, boxes=_boxes(predictions, frames, threshold)
    )
    categories = [item.category for item in predictions]
    metric = PCK(categories, alphas, protocol.strict)
    metric.update(predicted, truth, mask, base, categories)
    temperatures = np.array([item.temperature for item in predictions])
    return {
        "protocol": protocol.name,
        "threshold": threshold,
        **metric.compute(),
        "temperature": {"mean": float(temperatures.mean()), "std": float(temperatures.std())},
    }


def frame_points(points: np.ndarray, frame: Frame | None) -> np.ndarray:
    """Points ``(n, 2)`` of the original image in the frame where distances are measured."""
    return points if frame is None else frame.to_network(points)


def _measuring_frame(item: Prediction, protocol: Protocol) -> Frame | None:
    return None if protocol.measure == "original" else protocol.frame(item.target_size)


def _boxes(predictions: Sequence[Prediction], frames: Sequence[Frame | None], threshold: Threshold) -> Tensor | None:
    if threshold != "bbox":
        return None
    boxes = []
    for item, frame in zip(predictions, frames, strict=True):
        if item.target_box is None:
            raise DataError(f"pair '{item.pair}' has no target box, which the threshold 'bbox' needs")
        boxes.append(item.target_box if frame is None else resize_boxes(item.target_box, frame.original, frame.resized))
    return torch.from_numpy(np.stack(boxes))


def _pad(points: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Lists of ``(n_i, 2)`` as ``(B, N, 2)`` float64 and mask ``(B, N)``."""
    longest = max(len(item) for item in points)
    padded = torch.zeros(len(points), longest, 2, dtype=torch.float64)
    mask = torch.zeros(len(points), longest, dtype=torch.bool)
    for row, item in enumerate(points):
        padded[row, : len(item)] = torch.from_numpy(item)
        mask[row, : len(item)] = True
    return padded, mask
