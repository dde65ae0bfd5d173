"""Fitting and measuring a calibration: how often is a match right that looks like this one?

Examples come from annotated objects: every key-point of the source is asked for, and those that the target does not
have are real examples of "no counterpart". Pairs of different categories are further ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simsc.data.records import Annotated
from simsc.data.sources import load_objects
from simsc.errors import DataError
from simsc.matcher.encoded import EncodedImage
from simsc.matcher.matcher import Matcher
from simsc.models.calibration import Calibration, fit_logistic, terms
from simsc.models.trained import Trained

ALPHA = 0.1
"""A match is right within this share of the target object's larger side."""
PRECISION = 0.9
"""What ``sure`` promises: this share of such matches is right."""
LOST = 0.1
"""What ``none`` costs: this share of the points that do have a counterpart is called so."""
FOREIGN = 0.1
"""Pairs of different categories, as a share of all pairs that examples are drawn from."""
BINS = 15
HELD_OUT = 0.2
"""Share of the examples that a fit is measured on where no other split is named."""


@dataclass(frozen=True)
class Examples:
    """Matches of which the truth is known.

    Attributes:
        signals: ``(n, k)``, see :mod:`simsc.matching.signals`.
        right: ``(n,)`` whether the match is right.
        present: ``(n,)`` whether there is a counterpart.
        peak: ``(n,)`` peak probability, what confidence is without a calibration.
        cycle: ``(n,)`` cycle error as a share of the source's larger side.
    """

    signals: np.ndarray
    right: np.ndarray
    present: np.ndarray
    peak: np.ndarray
    cycle: np.ndarray

    def __len__(self) -> int:
        return len(self.right)

    def where(self, mask: np.ndarray) -> Examples:
        """Some of the examples."""
        return Examples(*(part[mask] for part in vars(self).values()))

    @staticmethod
    def joined(parts: Sequence[Examples]) -> Examples:
        """Several collections as one."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return Examples(*(np.concatenate(column) for column in columns))


class Quality(NamedTuple):
    """How good a calibration is on examples.

    Attributes:
        points: number of examples.
        right: share of them that is right.
        ece: expected calibration error of the confidence, over bins of equal width.
        auc_right: how well the confidence tells matches that are right from all others, those without a counterpart
            among them.
        auc_right_peak, auc_right_cycle: the same for peak probability and cycle error alone.
        auc_known: how well the confidence tells right from wrong among points that have a counterpart.
        auc_present: how well the second probability tells points with a counterpart from those without.
        kept, kept_peak, kept_cycle: share of points kept at 90 % precision, by confidence, peak or cycle error.
        reliability: for each bin the mean confidence, the share that is right, and the number of points.
    """

    points: int
    right: float
    ece: float
    auc_right: float
    auc_right_peak: float
    auc_right_cycle: float
    auc_known: float
    auc_present: float
    kept: float
    kept_peak: float
    kept_cycle: float
    reliability: list[tuple[float, float, int]]


def draw_pairs(
    objects: Sequence[Annotated], count: int, seed: int = 0, foreign: float = FOREIGN
) -> list[tuple[Annotated, Annotated]]:
    """At most ``count`` ordered pairs of objects in different images, a share ``foreign`` of different categories."""
    chance = np.random.default_rng(seed)
    by_category: dict[str, list[Annotated]] = defaultdict(list)
    for one in objects:
        by_category[one.category].append(one)
    chosen: list[tuple[Annotated, Annotated]] = []
    for _ in range(20 * count):
        if len(chosen) == count:
            break
        first = objects[int(chance.integers(len(objects)))]
        alike = chance.random() >= foreign
        others = by_category[first.category] if alike else objects
        second = others[int(chance.integers(len(others)))]
        if first.image.key != second.image.key and (first.category == second.category) == alike:
            chosen.append((first, second))
    return chosen


def collect(
    matcher: Matcher,
    pairs: Iterable[tuple[Annotated, Annotated]],
    progress: Callable[[int], None] | None = None,
) -> Examples:
    """Match every key-point of the first object of each pair and compare with the second."""
    encoded: dict[str, EncodedImage] = {}
    parts = []
    for number, (first, second) in enumerate(pairs):
        for ref in (first.image, second.image):
            if ref.key not in encoded:
                encoded[ref.key] = matcher.encode(ref.load())
        parts.append(_examples(matcher, first, second, encoded))
        if progress:
            progress(number + 1)
    if not parts:
        raise DataError("there are no pairs to calibrate on: two images of a category are needed")
    return Examples.joined(parts)


def _examples(matcher: Matcher, first: Annotated, second: Annotated, encoded: dict[str, EncodedImage]) -> Examples:
    asked = np.flatnonzero(first.present)
    height, width = first.image.size
    # A point a hair outside of its image, as annotations have them, is asked for at the border.
    points = np.clip(first.points[asked], 0, [width - 1, height - 1])
    result = matcher.match(encoded[first.image.key], encoded[second.image.key], points)
    known = np.zeros(len(asked), dtype=bool)
    if first.category == second.category:
        inside = asked < len(second.present)
        known[inside] = second.present[asked[inside]]
    right = np.zeros(len(asked), dtype=bool)
    distance = np.linalg.norm(result.points[known] - second.points[asked[known]], axis=1)
    right[known] = distance <= ALPHA * _larger_side(second)
    return Examples(result.signals, right, known, result.peak, result.cycle_error / max(first.image.size))


def _larger_side(one: Annotated) -> float:
    if one.box is not None:
        return float(max(one.box[2] - one.box[0], one.box[3] - one.box[1]))
    shown = one.points[one.present]
    return float((shown.max(axis=0) - shown.min(axis=0)).max())


def fit(examples: Examples, fitted_on: str = "") -> Calibration:
    """The calibration that suits the examples, with the limits of ``sure`` and ``none``."""
    if not 0 < examples.right.sum() < len(examples) or examples.present.all():
        raise DataError(
            "a calibration needs right and wrong matches and points without a counterpart; these examples lack one kind"
        )
    center = examples.signals.mean(axis=0)
    scale = examples.signals.std(axis=0).clip(1e-6)
    design = terms((examples.signals - center) / scale)
    even = np.ones(len(examples))
    right = fit_logistic(design, examples.right.astype(float), even)
    present = fit_logistic(design, examples.present.astype(float), even)
    draft = Calibration(_floats(center), _floats(scale), _floats(right), _floats(present), 1.0, 0.0, fitted_on)
    confidence, counterpart = draft.probabilities(examples.signals)
    sure = limit_for_precision(confidence, examples.right, PRECISION)
    none = float(np.quantile(counterpart[examples.present], LOST))
    return Calibration(_floats(center), _floats(scale), _floats(right), _floats(present), sure, none, fitted_on)


def quality(calibration: Calibration, examples: Examples) -> Quality:
    """Measure a calibration on examples that it was not fitted on."""
    confidence, counterpart = calibration.probabilities(examples.signals)
    known = examples.present
    bins = reliability(confidence, examples.right)
    return Quality(
        points=len(examples),
        right=float(examples.right.mean()),
        ece=sum(count * abs(mean - share) for mean, share, count in bins) / len(examples),
        auc_right=auc(confidence, examples.right),
        auc_right_peak=auc(examples.peak, examples.right),
        auc_right_cycle=auc(-examples.cycle, examples.right),
        auc_known=auc(confidence[known], examples.right[known]),
        auc_present=auc(counterpart, known),
        kept=kept_at(confidence, examples.right),
        kept_peak=kept_at(examples.peak, examples.right),
        kept_cycle=kept_at(-examples.cycle, examples.right),
        reliability=bins,
    )


def auc(score: np.ndarray, truth: np.ndarray) -> float:
    """Probability that a true example has a higher score than a false one, ties counting half; NaN without either.

    >>> auc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    positive = int(truth.sum())
    negative = len(truth) - positive
    if not positive or not negative:
        return float("nan")
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    total = float(ranks[inverse][truth].sum())
    return (total - positive * (positive + 1) / 2) / (positive * negative)


def limit_for_precision(score: np.ndarray, right: np.ndarray, precision: float) -> float:
    """The lowest score from which on at least ``precision`` of the examples are right; 1 where none is.

    >>> limit_for_precision(np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, True, False, False]), 0.9)
    0.8
    """
    count = _kept(score, right, precision)
    return float(np.sort(score)[-count]) if count else 1.0


def kept_at(score: np.ndarray, right: np.ndarray, precision: float = PRECISION) -> float:
    """Largest share of examples that can be kept, best scores first, with at least ``precision`` of them right."""
    return _kept(score, right, precision) / len(score)


def _kept(score: np.ndarray, right: np.ndarray, precision: float) -> int:
    """How many examples, best scores first, can be kept with at least ``precision`` of them right."""
    order = np.argsort(-score, kind="stable")
    good = np.cumsum(right[order]) / np.arange(1, len(order) + 1) >= precision
    return int(np.flatnonzero(good)[-1]) + 1 if good.any() else 0


def reliability(confidence: np.ndarray, right: np.ndarray, bins: int = BINS) -> list[tuple[float, float, int]]:
    """Mean confidence, share that is right and number of examples in each bin of equal width that has any."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    members = [place == number for number in range(bins)]
    return [(float(confidence[m].mean()), float(right[m].mean()), int(m.sum())) for m in members if m.any()]


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)


def calibrate_model(
    model: str,
    data: Sequence[str],
    root: str | Path | None = None,
    split: str = "val",
    *,
    pairs: int = 1500,
    seed: int = 0,
    measure: str | None = None,
    fits: bool = True,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Trained, Quality]:
    """Fit a calibration of a model on data sets and measure it on pairs that the fit has not seen.

    Args:
        model: any name that :meth:`simsc.models.trained.Trained.open` takes.
        data: data sets with annotated objects.
        root: folder of the data set, where there is one only.
        split: their split to fit on.
        pairs: pairs drawn from each.
        seed: decides which.
        measure: ``<data set>/<split>`` to measure on; None for the fifth of the pairs that is held out for it.
        fits: False measures the calibration that the model has.
        device: where the model runs.
        progress: told how many pairs of how many are done.
    """
    matcher = Matcher(Trained.open(model).ready(), device=device)
    drawn = [] if not fits else [pair for name in data for pair in _drawn(name, root, split, pairs, seed)]
    other = _drawn(*_named(measure), pairs, seed) if measure else []
    total = len(drawn) + len(other)
    examples = collect(matcher, drawn, _counting(progress, 0, total)) if drawn else None
    held = collect(matcher, other, _counting(progress, len(drawn), total)) if other else None
    trained = Trained.open(model)
    calibration = trained.calibration
    if examples is not None:
        kept = np.ones(len(examples), dtype=bool)
        if held is None:
            kept = np.random.default_rng(seed).random(len(examples)) >= HELD_OUT
            held = examples.where(~kept)
        calibration = fit(examples.where(kept), f"{','.join(data)} {split}")
    if calibration is None or held is None:
        raise DataError(
            f"{model} has no calibration to measure, or nothing to measure it on; give --measure spair/test"
        )
    return trained.described(calibration=calibration), quality(calibration, held)


def _drawn(name: str, root: str | Path | None, split: str, count: int, seed: int) -> list[tuple[Annotated, Annotated]]:
    return draw_pairs(load_objects(name, root, split), count, seed)


def _named(measure: str) -> tuple[str, None, str]:
    name, _, split = measure.partition("/")
    return name, None, split or "test"


def _counting(progress: Callable[[int, int], None] | None, before: int, total: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda done: progress(before + done, total)
