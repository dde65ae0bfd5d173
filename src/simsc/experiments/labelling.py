"""How many points have to be placed by hand until a pile of photographs is labelled, with the loop and without it.

The loop: label one photograph, transfer, correct the doubtful points, adapt, repeat. A point is labelled right when a
person has placed it, or when it was transferred to within a tenth of the object's larger side of where it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from simsc.data.catalog import DATASETS
from simsc.data.locate import find_root
from simsc.data.pairing import by_category
from simsc.data.photographs import Photographs
from simsc.data.records import Annotated
from simsc.errors import DataError
from simsc.experiments.experiment import Context, experiment
from simsc.experiments.report import Outcome, Row, number
from simsc.matcher import Matcher, load
from simsc.models import DEFAULT
from simsc.training.adapt import adapt_objects

GOAL = 0.95
RADIUS = 0.1
SOURCES = 5
"""Photographs that points are transferred from: those with the most points placed by hand."""
CATEGORY = "bird"


@dataclass(frozen=True)
class Size:
    """How large the experiment is: photographs, rounds after the first, share of all points a round, steps to adapt."""

    photographs: int = 24
    rounds: int = 8
    share: float = 0.1
    steps: int = 48


@dataclass(frozen=True)
class Strategy:
    """Which points to place next, and whether the model learns from them."""

    name: str
    doubtful: bool
    adapts: bool


STRATEGIES = (
    Strategy("the loop: doubtful first, adapted", doubtful=True, adapts=True),
    Strategy("doubtful first, not adapted", doubtful=True, adapts=False),
    Strategy("at random, adapted", doubtful=False, adapts=True),
    Strategy("at random, not adapted", doubtful=False, adapts=False),
)


@experiment("labelling", "points placed by hand for 95 % of full labelling", "8 short adaptations", "VOC key-points")
def labelling(context: Context) -> Outcome:
    """Not in the paper: what the labelling loop saves."""
    from simsc.pictures import plot_lines

    size = Size(4, 2, 0.2, 2) if context.quick else Size()
    pool, note = _pool(context, size)
    total = int(sum(one.present.sum() for one in pool))
    curves = {}
    rows = []
    for strategy in STRATEGIES:
        context.say(f"labelling: {strategy.name}")
        placed, right = _simulate(strategy, pool, size, context.folder / "models", context.seeds[0])
        curves[strategy.name] = (placed / total * 100, right * 100)
        reached = _crossing(placed, right)
        cells = {
            "right after the first photograph (%)": number(float(right[0]) * 100),
            "right with half placed (%)": number(float(np.interp(total / 2, placed, right)) * 100),
            "points for 95 %": number(reached, 0),
            "share of all (%)": number(None if reached is None else reached / total * 100),
        }
        values = {"placed": placed.tolist(), "right": right.round(4).tolist(), "points": total}
        rows.append(Row(strategy.name, cells, seed=context.seeds[0], values=values))
    figures = plot_lines(
        curves,
        context.folder / "labelling.png",
        xlabel="points placed by hand (% of all)",
        ylabel="points labelled right (%)",
    )
    return Outcome(list(rows[0].cells), rows, figures, [note, *context.notes])


def _pool(context: Context, size: Size) -> tuple[list[Annotated], str]:
    """Photographs of one category with many points each, that the packaged model has not seen."""
    name = "scenes" if context.quick else "voc"
    dataset = DATASETS[name]
    root = find_root(dataset.info, context.meter.root)
    members = by_category(dataset.objects(root, "train"))
    objects = [one for one in members.get(CATEGORY, next(iter(members.values()))) if one.box is not None]
    seen = "no photograph of PF-Pascal's training split is among them"
    try:
        pascal = DATASETS["pfpascal"]
        objects = Photographs(pascal.images(find_root(pascal.info, None), "train")).without(objects)
    except DataError:
        seen = "photographs of PF-Pascal's training split may be among them"
    chosen = sorted(objects, key=lambda one: (-int(one.present.sum()), one.name))[: 3 * size.photographs]
    order = np.random.default_rng(context.seeds[0]).permutation(len(chosen))[: size.photographs]
    pool = [chosen[index] for index in order]
    points = int(sum(one.present.sum() for one in pool))
    return pool, f"{dataset.info.title}, {pool[0].category}: {len(pool)} training photographs, {points} points; {seen}."


def _simulate(
    strategy: Strategy, pool: Sequence[Annotated], size: Size, folder: Path, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Points placed by hand and the share of points that are right, after each round."""
    present = np.array([one.present for one in pool])
    known = np.zeros_like(present)
    first = int(present.sum(axis=1).argmax())
    known[first] = present[first]
    chance = np.random.default_rng(seed)
    matcher = load(DEFAULT, device="cpu")
    placed, right = [], []
    for turn in range(size.rounds + 1):
        points, confidence = transferred(matcher, pool, known)
        placed.append(int(known.sum()))
        right.append(float((known | _is_right(pool, points))[present].mean()))
        if turn == size.rounds:
            break
        open_points = np.argwhere(present & ~known)
        rank = confidence[tuple(open_points.T)] if strategy.doubtful else chance.random(len(open_points))
        chosen = open_points[np.argsort(rank, kind="stable")[: round(size.share * present.sum())]]
        known[tuple(chosen.T)] = True
        if strategy.adapts:
            matcher = _adapted(pool, known, size, folder, seed)
    return np.array(placed), np.array(right)


def transferred(matcher: Matcher, pool: Sequence[Annotated], known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points ``(P, K, 2)`` of the photographs by transfer from those with known points, and confidences ``(P, K)``.

    Where no source has a point there is no guess: not-a-number, confidence 0.
    """
    points = np.full((*known.shape, 2), np.nan)
    confidence = np.zeros(known.shape)
    encoded = matcher.encode_many([one.image.load() for one in pool])
    for source in np.argsort(-known.sum(axis=1), kind="stable")[:SOURCES]:
        for target in range(len(pool)):
            names = np.flatnonzero(known[source] & pool[target].present & ~known[target])
            if target == source or not len(names):
                continue
            found = matcher.match(encoded[source], encoded[target], pool[source].points[names])
            better = found.confidence > confidence[target, names]
            points[target, names[better]] = found.points[better]
            confidence[target, names[better]] = found.confidence[better]
    return points, confidence


def _is_right(pool: Sequence[Annotated], points: np.ndarray) -> np.ndarray:
    truth = np.array([one.points for one in pool])
    sides = np.array([max(one.box[2] - one.box[0], one.box[3] - one.box[1]) for one in pool if one.box is not None])
    right: np.ndarray = np.linalg.norm(points - truth, axis=-1) <= RADIUS * sides[:, None]
    return right


def _adapted(pool: Sequence[Annotated], known: np.ndarray, size: Size, folder: Path, seed: int) -> Matcher:
    labelled = [replace(one, present=mine) for one, mine in zip(pool, known, strict=True) if mine.any()]
    shutil.rmtree(folder, ignore_errors=True)
    adapt_objects(labelled, folder, epochs=2, seed=seed, device="cpu", steps=size.steps)
    matcher = load(folder, device="cpu")
    shutil.rmtree(folder)
    return matcher


def _crossing(placed: np.ndarray, right: np.ndarray) -> float | None:
    """Points placed when the goal is first reached, between the rounds by a straight line.

    >>> _crossing(np.array([0, 10, 20]), np.array([0.5, 0.9, 1.0]))
    15.0
    """
    above = np.flatnonzero(right >= GOAL)
    if not len(above):
        return None
    last = int(above[0])
    if last == 0:
        return float(placed[0])
    share = (GOAL - right[last - 1]) / (right[last] - right[last - 1])
    return round(float(placed[last - 1] + share * (placed[last] - placed[last - 1])), 6)
