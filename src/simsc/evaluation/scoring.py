"""Scoring: predictions to PCK under a named protocol. Needs no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import Size, resize_boxes
from simsc.errors import DataError
from simsc.evaluation.pck import ALPHAS, Threshold, correct_points, pck, threshold_base
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import Protocol
from simsc.frames import Frame

SHOWN_ALPHA = 0.1
"""Threshold at which pictures tell right from wrong."""
Rates = Mapping[float, float]
"""PCK in percent by alpha."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over pairs."""

    mean: float
    std: float


@dataclass(frozen=True)
class Score:
    """All figures of some predictions, PCK in percent.

    Attributes:
        protocol, threshold: how it was measured.
        per_image: mean over pairs of each pair's share of correct points, by alpha.
        per_point: share of correct points among all points, by alpha.
        per_category: ``per_image`` of each category.
        pairs, points: how many.
        temperature: effective temperature of the pairs.
    """

    protocol: str
    threshold: str
    per_image: Rates
    per_point: Rates
    per_category: Mapping[str, Rates]
    pairs: int
    points: int
    temperature: Spread

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Score:
        """What :meth:`to_dict` gave, also after a journey through JSON, where alphas become text."""
        return Score(
            protocol=record["protocol"],
            threshold=record["threshold"],
            per_image=_by_alpha(record["per_image"]),
            per_point=_by_alpha(record["per_point"]),
            per_category={name: _by_alpha(rates) for name, rates in record["per_category"].items()},
            pairs=record["pairs"],
            points=record["points"],
            temperature=Spread(**record["temperature"]),
        )


def score(
    predictions: Sequence[Prediction], protocol: Protocol, threshold: Threshold, alphas: Sequence[float] = ALPHAS
) -> Score:
    """PCK per image, per point and per category, and the mean and std of the effective temperature.

    Args:
        predictions: in original pixels.
        protocol: says in which frame distances are measured.
        threshold: the data set's base, ``img``, ``kps`` or ``bbox``.
        alphas: fractions of the base.
    """
    if not predictions:
        raise DataError("there are no predictions to score")
    points = _measured_points(predictions, protocol, threshold)
    correct = correct_points(*points, alphas, protocol.strict)
    rates = pck(correct, points.mask)
    categories = np.array([item.category for item in predictions])
    temperatures = np.array([item.temperature for item in predictions])

    def percent(shares: Tensor) -> dict[float, float]:
        return dict(zip(alphas, (100 * shares).tolist(), strict=True))

    return Score(
        protocol=protocol.name,
        threshold=threshold,
        per_image=percent(rates.mean(dim=0)),
        per_point=percent(correct.sum(dim=(0, 1)).double() / points.mask.sum()),
        per_category={
            str(name): percent(rates[torch.from_numpy(categories == name)].mean(dim=0))
            for name in np.unique(categories)
        },
        pairs=len(predictions),
        points=int(points.mask.sum()),
        temperature=Spread(float(temperatures.mean()), float(temperatures.std())),
    )


def is_correct(item: Prediction, protocol: Protocol, threshold: Threshold) -> np.ndarray:
    """Which points ``(n,)`` of a prediction count as correct at PCK@0.1 under a protocol, for pictures."""
    points = _measured_points([item], protocol, threshold)
    return correct_points(*points, [SHOWN_ALPHA], protocol.strict)[0, :, 0].numpy()


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


class _Points(NamedTuple):
    """Points ``(B, N, 2)`` in the frame where distances are measured, which are real, and the threshold's base."""

    predicted: Tensor
    truth: Tensor
    mask: Tensor
    base: Tensor


def _measured_points(predictions: Sequence[Prediction], protocol: Protocol, threshold: Threshold) -> _Points:
    frames = [_measuring_frame(item, protocol) for item in predictions]
    both = list(zip(predictions, frames, strict=True))
    truth, mask = _pad([_frame_points(item.target_points, frame) for item, frame in both])
    predicted, _ = _pad([_frame_points(item.predicted, frame) for item, frame in both])
    base = threshold_base(
        threshold,
        points=truth,
        mask=mask,
        image_size=_sizes(predictions, frames) if threshold == "img" else None,
        boxes=_boxes(predictions, frames) if threshold == "bbox" else None,
    )
    return _Points(predicted, truth, mask, base)


def _frame_points(points: np.ndarray, frame: Frame | None) -> np.ndarray:
    return points if frame is None else frame.to_network(points)


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


def _by_alpha(rates: Mapping[str, float] | Rates) -> dict[float, float]:
    return {float(alpha): value for alpha, value in rates.items()}
