"""Scoring: predictions to PCK under a named protocol. Needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import Size, resize_boxes
from simsc.errors import DataError
from simsc.evaluation.counts import count_pck, summarize
from simsc.evaluation.pck import ALPHAS, Threshold, threshold_base
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import Protocol
from simsc.frames import Frame


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
    if not predictions:
        raise DataError("there are no predictions to score")
    frames = [_measuring_frame(item, protocol) for item in predictions]
    truth, mask = _pad(
        [frame_points(item.target_points, frame) for item, frame in zip(predictions, frames, strict=True)]
    )
    predicted, _ = _pad([frame_points(item.predicted, frame) for item, frame in zip(predictions, frames, strict=True)])
    base = threshold_base(
        threshold,
        points=truth,
        mask=mask,
        image_size=_sizes(predictions, frames) if threshold == "img" else None,
        boxes=_boxes(predictions, frames) if threshold == "bbox" else None,
    )
    categories = [item.category for item in predictions]
    known = sorted(set(categories))
    counts = count_pck(predicted, truth, mask, base, categories, known, alphas, protocol.strict)
    temperatures = np.array([item.temperature for item in predictions])
    return {
        "protocol": protocol.name,
        "threshold": threshold,
        **summarize(counts, known, alphas),
        "temperature": {"mean": float(temperatures.mean()), "std": float(temperatures.std())},
    }


def frame_points(points: np.ndarray, frame: Frame | None) -> np.ndarray:
    """Points ``(n, 2)`` of the original image in the frame where distances are measured."""
    return points if frame is None else frame.to_network(points)


def stated_rules(
    predictions: Sequence[Prediction], protocol: str | None = None, threshold: str | None = None
) -> tuple[str, str]:
    """Protocol and threshold to score by: the given ones, or else what the predictions themselves say."""
    chosen = {"protocol": protocol, "threshold": threshold}
    for name, given in chosen.items():
        stated = {getattr(item, name) for item in predictions}
        if given is None and len(stated) > 1:
            raise DataError(f"the predictions disagree about the {name}: {', '.join(sorted(map(str, stated)))}")
        chosen[name] = given or stated.pop()
    if chosen["threshold"] is None:
        raise DataError("the predictions do not say their threshold; give --threshold img, kps or bbox")
    return chosen["protocol"] or "paper-256", chosen["threshold"]


def _measuring_frame(item: Prediction, protocol: Protocol) -> Frame | None:
    return None if protocol.measure == "original" else protocol.frame(_target_size(item))


def _target_size(item: Prediction) -> Size:
    if item.target_size is None:
        raise DataError(f"pair '{item.pair}' lacks the field 'target_size', which this protocol or threshold needs")
    return item.target_size


def _sizes(predictions: Sequence[Prediction], frames: Sequence[Frame | None]) -> Tensor:
    return torch.tensor(
        [frame.canvas if frame else _target_size(item) for item, frame in zip(predictions, frames, strict=True)]
    )


def _boxes(predictions: Sequence[Prediction], frames: Sequence[Frame | None]) -> Tensor:
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
