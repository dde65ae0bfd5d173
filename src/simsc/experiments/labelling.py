"""How many points have to be placed by hand until a pile of photographs is labelled, with the loop and without it.

The loop: label one photograph, transfer, correct the most doubtful points, transfer again. A point is labelled right
when a person has placed it, or when it was transferred to within a tenth of the object's larger side of where it is.
All photographs are matched with all once, so that every strategy and every seed only has to look up.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from simsc.data.pairing import by_category
from simsc.data.records import Annotated
from simsc.data.sources import load_objects
from simsc.experiments.experiment import Context, experiment
from simsc.experiments.report import Outcome, Row, number
from simsc.files import atomic_path, sha256
from simsc.matcher import Matcher, load
from simsc.models import DEFAULT
from simsc.models.card import find_model
from simsc.training.adapt import adapt_objects

GOAL = 0.95
RADIUS = 0.1
CATEGORIES = ("bird", "aeroplane", "bus")
SPLIT = "test"
"""Photographs that neither the packaged models nor their calibrations were fitted on."""


@dataclass(frozen=True)
class Size:
    """How large the experiment is.

    Attributes:
        share: of all points, placed in a round.
        adapted: so many of the categories are also labelled with adapting, with the first seed; the experiment's
            ``--epochs`` are those of an adaptation, and 0 leaves it out.
        adapt_at: share of the points that are placed by then.
        steps: of an adaptation.
    """

    share: float = 0.05
    adapted: int = 1
    adapt_at: float = 0.25
    steps: int = 48


@dataclass(frozen=True)
class Pool:
    """Photographs of a category: which points they have ``(P, K)``, where ``(P, K, 2)``, and their objects."""

    objects: list[Annotated]
    present: np.ndarray
    truth: np.ndarray

    @staticmethod
    def of(objects: Sequence[Annotated]) -> Pool:
        """Those with a box; rows of key-points that an object does not know are absent ones."""
        boxed = [one for one in objects if one.box is not None]
        count = max(len(one.present) for one in boxed)
        present, truth = np.zeros((len(boxed), count), dtype=bool), np.full((len(boxed), count, 2), np.nan)
        for index, one in enumerate(boxed):
            present[index, : len(one.present)] = one.present
            truth[index, : len(one.present)] = one.points
        return Pool(boxed, present, truth)

    def is_right(self, points: np.ndarray) -> np.ndarray:
        """Which points ``(P, K, 2)`` are near enough to the true ones."""
        sides = np.array(
            [max(box[2] - box[0], box[3] - box[1]) for one in self.objects if (box := one.box) is not None]
        )
        right: np.ndarray = np.linalg.norm(points - self.truth, axis=-1) <= RADIUS * sides[:, None]
        return right


@dataclass(frozen=True)
class Matches:
    """Every photograph's points in every other one: places ``(P, P, K, 2)``, confidences ``(P, P, K)``; 0 is none."""

    points: np.ndarray
    confidence: np.ndarray

    def transferred(self, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points ``(P, K, 2)`` and confidences ``(P, K)`` by the most confident source of what is known ``(P, K)``.

        Where no source has a point there is no guess: not-a-number, confidence 0.
        """
        confidence = np.where(known[:, None], self.confidence, 0)
        best = confidence.argmax(axis=0)[None]
        points = np.take_along_axis(self.points, best[..., None], axis=0)[0]
        sure = np.take_along_axis(confidence, best, axis=0)[0]
        return np.where(sure[..., None] > 0, points, np.nan), sure


@experiment("labelling", "points placed by hand for 95 % of full labelling", "1 short adaptation", "SPair-71k")
def labelling(context: Context) -> Outcome:
    """Not in the paper: what the labelling loop saves; resumable, for matches are kept beside the results."""
    from simsc.pictures import plot_lines

    size = Size(0.2, 1, 0.5, 2) if context.quick else Size()
    name = context.base.start or DEFAULT
    digest = sha256(path)[:12] if (path := find_model(name)) is not None else "model"
    groups = by_category(load_objects("scenes" if context.quick else "spair", context.meter.root, SPLIT))
    chosen = list(groups)[:1] if context.quick else list(CATEGORIES)
    curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"doubtful first": [], "at random": []}
    rows: list[Row] = []
    matcher: Matcher | None = None
    done: dict[str, tuple[Pool, Matches]] = {}
    for category in chosen:
        pool = Pool.of(groups[category])
        context.say(f"labelling: {category}, {len(pool.objects)} photographs, {pool.present.sum()} points")
        kept = context.folder / f"matches-{digest}-{category}.npz"
        matcher = matcher or (None if kept.exists() else load(name, device="cpu"))
        matches = remembered(kept, matcher, pool)
        for strategy, found in curves.items():
            mine = [simulate(pool, [matches], strategy == "at random", size, seed) for seed in context.seeds]
            found += mine
            rows.append(_row(f"{category}, {strategy}", mine, pool))
        done[category] = pool, matches
    for category in chosen[: size.adapted] if _epochs(context) else ():
        rows.append(_adapted_row(context, name, digest, category, *done[category], size))
    grid = np.linspace(0.05, 1, 96)
    lines = {
        strategy: (100 * grid, 100 * np.mean([np.interp(grid, *curve) for curve in found], axis=0))
        for strategy, found in curves.items()
    }
    figures = plot_lines(
        lines,
        context.folder / "labelling.png",
        xlabel="points placed by hand (% of all)",
        ylabel="points labelled right (%)",
        markers=False,
    )
    means = [_row(f"all, {strategy}", found) for strategy, found in curves.items()]
    seeds = ", ".join(map(str, context.seeds))
    note = (
        f"Means over the seeds {seeds}, which choose the first photograph; adapted: the seed {context.seeds[0]} alone."
    )
    return Outcome(list(rows[0].cells), [*means, *rows], figures, [note, *context.notes])


def remembered(path: Path, matcher: Matcher | None, pool: Pool) -> Matches:
    """The matches of a pool, from the file if it is there."""
    if not path.exists():
        assert matcher is not None
        matches = match_all(matcher, pool)
        with atomic_path(path) as draft, draft.open("wb") as stream:
            np.savez(stream, points=matches.points, confidence=matches.confidence)
    with np.load(path) as stored:
        return Matches(stored["points"], stored["confidence"])


def match_all(matcher: Matcher, pool: Pool) -> Matches:
    """Every photograph with every other one."""
    encoded = [matcher.encode(one.image.load()) for one in pool.objects]
    shape = len(encoded), *pool.present.shape
    points, confidence = np.full((*shape, 2), np.nan), np.zeros(shape)
    for source, one in enumerate(pool.objects):
        for target in range(len(encoded)):
            names = np.flatnonzero(pool.present[source] & pool.present[target])
            if target == source or not len(names):
                continue
            height, width = one.image.size
            asked = pool.truth[source, names].clip(0, [width - 1, height - 1])
            found = matcher.match(encoded[source], encoded[target], asked)
            points[source, target, names] = found.points
            confidence[source, target, names] = found.confidence.clip(1e-6)
    return Matches(points, confidence)


def simulate(
    pool: Pool, stages: Sequence[Matches], random: bool, size: Size, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the points that are placed by hand and that are right, round after round until all are placed.

    ``stages`` are the matches of the start and, where there is a second one, of the model adapted on the way.
    """
    present, total = pool.present, int(pool.present.sum())
    chance = np.random.default_rng(seed)
    known = begin(pool, chance)
    placed, right = [], []
    while True:
        stage = stages[-1 if known.sum() >= size.adapt_at * total else 0]
        points, confidence = stage.transferred(known)
        placed.append(known.sum() / total)
        right.append(float((known | pool.is_right(points))[present].mean()))
        if known.sum() == total:
            return np.array(placed), np.array(right)
        place(known, present, chance.random(known.shape) if random else confidence, size, total)


def begin(pool: Pool, chance: np.random.Generator) -> np.ndarray:
    """What is known ``(P, K)`` at first: one photograph, drawn from the third that shows the most points."""
    many = np.argsort(-pool.present.sum(axis=1), kind="stable")[: max(1, len(pool.objects) // 3)]
    first = chance.choice(many)
    known = np.zeros_like(pool.present)
    known[first] = pool.present[first]
    return known


def place(known: np.ndarray, present: np.ndarray, rank: np.ndarray, size: Size, total: int) -> None:
    """Place the points of the lowest rank ``(P, K)`` among those that are open, a round's share of them."""
    open_points = np.argwhere(present & ~known)
    order = np.argsort(rank[tuple(open_points.T)], kind="stable")[: max(1, round(size.share * total))]
    known[tuple(open_points[order].T)] = True


def _adapted_row(
    context: Context, name: str, digest: str, category: str, pool: Pool, matches: Matches, size: Size
) -> Row:
    """The loop with the first seed, the model being adapted on the way to what is placed by then."""
    kept = context.folder / f"adapted-{digest}-{category}-{context.seeds[0]}.npz"
    matcher = None
    if not kept.exists():
        context.say(f"labelling: {category}, adapting")
        known = begin(pool, np.random.default_rng(context.seeds[0]))
        total = int(pool.present.sum())
        while known.sum() < size.adapt_at * total:
            place(known, pool.present, matches.transferred(known)[1], size, total)
        matcher = _adapted(pool, known, size, context, name)
    stages = [matches, remembered(kept, matcher, pool)]
    curve = simulate(pool, stages, False, size, context.seeds[0])
    return _row(f"{category}, doubtful first, adapted", [curve], pool, seed=context.seeds[0])


def _epochs(context: Context) -> int:
    return int(context.changes.get("epochs", 2))


def _adapted(pool: Pool, known: np.ndarray, size: Size, context: Context, name: str) -> Matcher:
    """A matcher that has learned from the points that are known; the start's, where nothing was gained."""
    folder, seed = context.folder / "model", context.seeds[0]
    labelled = [
        replace(one, points=points, present=mine)
        for one, points, mine in zip(pool.objects, pool.truth, known, strict=True)
        if mine.any()
    ]
    shutil.rmtree(folder, ignore_errors=True)
    adapt_objects(labelled, folder, start=name, epochs=_epochs(context), seed=seed, device="cpu", steps=size.steps)
    matcher = load(folder, device="cpu")
    shutil.rmtree(folder)
    return matcher


def _row(
    name: str, curves: Sequence[tuple[np.ndarray, np.ndarray]], pool: Pool | None = None, seed: int | None = None
) -> Row:
    """Means over curves, each with its shares placed and right."""

    def mean(values: Sequence[float]) -> float:
        return 100 * float(np.mean(values))

    reached = [crossing(*curve) for curve in curves]
    cells = {
        "points": "" if pool is None else str(int(pool.present.sum())),
        "right after the first photograph (%)": number(mean([right[0] for _, right in curves])),
        "right with a quarter placed (%)": number(mean([np.interp(0.25, *curve) for curve in curves])),
        "right with half placed (%)": number(mean([np.interp(0.5, *curve) for curve in curves])),
        "placed for 95 % (%)": number(mean(reached)),
        "least to most (%)": f"{100 * min(reached):.0f} to {100 * max(reached):.0f}",
    }
    values = {"placed": [x.round(4).tolist() for x, _ in curves], "right": [y.round(4).tolist() for _, y in curves]}
    return Row(name, cells, seed=seed, values=values)


def crossing(placed: np.ndarray, right: np.ndarray) -> float:
    """Share placed when the goal is first reached, between the rounds by a straight line.

    >>> crossing(np.array([0.0, 0.1, 0.2]), np.array([0.5, 0.9, 1.0]))
    0.15
    """
    after = int(np.flatnonzero(right >= GOAL)[0])
    if after == 0:
        return float(placed[0])
    share = (GOAL - right[after - 1]) / (right[after] - right[after - 1])
    return round(float(placed[after - 1] + share * (placed[after] - placed[after - 1])), 6)
