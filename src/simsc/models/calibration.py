"""A calibration: from the signals of a match to the probability that it is right, and that there is anything to find.

Two logistic models on the signals, their squares and products. It is fitted on validation pairs, belongs to one model
and is stored with it. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations_with_replacement
from typing import Any, Literal

import numpy as np

from simsc.errors import WeightsError

Status = Literal["sure", "unsure", "none"]
STATUSES: tuple[Status, ...] = ("sure", "unsure", "none")
HOPELESS = 0.1
"""Confidence below which a match counts as none, whatever else speaks for a counterpart."""
MOST_SIGNALS = 64
_CLIP = 4.0  # signals further out than this many deviations say no more than that they are far out


@dataclass(frozen=True)
class Calibration:
    """What turns signals ``(n, k)`` into probabilities.

    Attributes:
        center, scale: ``k`` numbers that standardise the signals.
        right: weights of the terms of :func:`terms` for "the match is right".
        present: the same for "the point has a counterpart in the target".
        sure: confidence from which a match is ``sure``.
        none: probability of a counterpart below which there is ``none``.
        fitted_on: the pairs it was fitted on, for people.
    """

    center: tuple[float, ...]
    scale: tuple[float, ...]
    right: tuple[float, ...]
    present: tuple[float, ...]
    sure: float
    none: float
    fitted_on: str = ""

    def probabilities(self, signals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probability ``(n,)`` that each match is right, and that its point has a counterpart at all."""
        if signals.shape[1] != len(self.center):
            raise WeightsError(
                f"the model's calibration is for {len(self.center)} signals and its matches have {signals.shape[1]}; "
                "fit it again with simsc calibrate"
            )
        design = terms((signals - np.array(self.center)) / np.array(self.scale))
        # Sums row by row: the last digits of a matrix product depend on how many rows there are.
        right, present = ((design * np.array(weights)).sum(axis=1) for weights in (self.right, self.present))
        return sigmoid(right), sigmoid(present)

    def status(self, right: np.ndarray, present: np.ndarray) -> np.ndarray:
        """``sure``, ``unsure`` or ``none`` for each point, from its two probabilities."""
        named = np.where(right >= self.sure, "sure", "unsure")
        return np.where((right < HOPELESS) | ((present < self.none) & (right < self.sure)), "none", named)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @staticmethod
    def from_dict(values: Mapping[str, Any], where: str = "calibration") -> Calibration:
        """What :meth:`to_dict` gave, checked field by field."""
        found: dict[str, Any] = {}
        for field in fields(Calibration):
            value = values.get(field.name, "" if field.name == "fitted_on" else None)
            found[field.name] = _checked(field.name, value, where)
        one = Calibration(**found)
        if not len(one.center) == len(one.scale) <= MOST_SIGNALS or not all(width > 0 for width in one.scale):
            raise WeightsError(f"{where}: expected as many widths above 0 as centers, at most {MOST_SIGNALS}")
        count = len(terms(np.zeros((1, len(one.center))))[0])
        if not len(one.right) == len(one.present) == count:
            raise WeightsError(f"{where}: expected {count} weights for {len(one.center)} signals")
        return one


def terms(signals: np.ndarray) -> np.ndarray:
    """One, the standardised signals ``(n, k)``, and their squares and products: ``(n, 1 + k + k (k + 1) / 2)``.

    >>> terms(np.array([[2.0, 3.0]])).tolist()
    [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
    """
    signals = np.clip(signals, -_CLIP, _CLIP)
    pairs = combinations_with_replacement(range(signals.shape[1]), 2)
    products = [signals[:, first] * signals[:, second] for first, second in pairs]
    return np.column_stack([np.ones(len(signals)), signals, *products])


def fit_logistic(design: np.ndarray, labels: np.ndarray, weights: np.ndarray, ridge: float = 1.0) -> np.ndarray:
    """Weights ``(t,)`` of a logistic model of ``labels (n,)`` on ``design (n, t)``, by Newton's method.

    Args:
        design: terms of each example.
        labels: 0 or 1.
        weights: how much each example counts.
        ridge: strength of the pull towards 0, in examples; the constant is free.
    """
    found = np.zeros(design.shape[1])
    penalty = np.full(design.shape[1], ridge)
    penalty[0] = 1e-6
    for _ in range(50):
        chance = sigmoid(design @ found)
        gradient = design.T @ (weights * (chance - labels)) + penalty * found
        curvature = (design * (weights * chance * (1 - chance))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        found = found - step
        if np.abs(step).max() < 1e-8:
            break
    return found


def sigmoid(values: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-x))`` without overflow."""
    result: np.ndarray = 0.5 * (1 + np.tanh(values / 2))
    return result


def _checked(name: str, value: Any, where: str) -> Any:
    if name == "fitted_on":
        return str(value)
    many = name in ("center", "scale", "right", "present")
    numbers = value if many else [value]
    if not isinstance(numbers, Sequence) or isinstance(numbers, str) or not all(_is_number(item) for item in numbers):
        expected = "a list of finite numbers" if many else "a finite number"
        raise WeightsError(f"{where}: the field '{name}' must be {expected}")
    return tuple(float(item) for item in numbers) if many else float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))
