"""What the mirror gains and costs: by difference of viewpoint, by category, and read in two ways.

With the mirror a left part is found at what looks the same in the mirror image, the right one. By name that is wrong;
read as "one of the two", it is right. Data sets whose key-points name their sides tell both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simsc.data.records import Annotated, Pair, common_points, pair_of, twin
from simsc.data.sources import load_objects, load_pairs
from simsc.errors import DataError
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import find_protocol
from simsc.experiments.experiment import Context, experiment
from simsc.experiments.measurements import KeepingEncoder
from simsc.experiments.report import Outcome, Row, number
from simsc.matching.mirror import MIRRORS
from simsc.models import DEFAULT
from simsc.models.trained import Trained

RADIUS = 0.1
"""A match is right within this share of the target object's larger side."""
SECTORS = 8


@dataclass(frozen=True)
class Sample:
    """Pairs drawn from a split, all of them among so many images of each category, or of one."""

    data: str
    split: str
    pairs: int
    images: int
    category: str | None = None


SAMPLES = (Sample("spair", "val", 300, 6), Sample("voc", "val", 300, 5), Sample("spair", "test", 1000, 8))
QUICK = (Sample("scenes", "test", 6, 2),)


@dataclass(frozen=True)
class Judged:
    """What became of one pair: for each choice of the mirror, the share of points that are right.

    Attributes:
        pair: of whom.
        mirrored: whether ``auto`` took the mirror.
        by_name: by choice.
        either_side: by choice, where the twin of a sided key-point counts too.
    """

    pair: Pair
    mirrored: bool
    by_name: Mapping[str, float]
    either_side: Mapping[str, float]


@experiment("mirror", "opposite viewpoints in a mirror, and left against right", "none", "SPair-71k, VOC key-points")
def mirror(context: Context) -> Outcome:
    """Not in the paper: the option ``mirror`` of the packaged model, or of the one that ``--set start`` names."""
    model = Trained.open(context.base.start or DEFAULT).ready()
    rows: list[Row] = []
    judged: list[Judged] = []
    notes = [f"Right: within {RADIUS:g} of the larger side of the target's box; each pair counts the same."]
    for sample in QUICK if context.quick else SAMPLES:
        name, split = sample.data, sample.split
        context.say(f"mirror: {sample.pairs} pairs of {name}, {split}")
        try:
            pairs, targets = _drawn(sample, context)
        except DataError as error:
            notes.append(f"{name}, {split} is left out: {error}.")
            continue
        judged = _judge(model, pairs, targets)
        rows += [_row(f"{name} {split}, all", judged)]
        rows += _grouped(f"{name} {split}, views differ by ", judged, _degrees)
        rows += _grouped(f"{name} {split}, ", judged, lambda each: each.pair.category)
    if not rows:
        raise DataError(f"mirror: there are no data to measure on. {' '.join(notes[1:])}")
    return Outcome(list(rows[0].cells), rows, _plot(judged, context.folder / "mirror.png"), [*notes, *context.notes])


def _plot(judged: Sequence[Judged], path: Path) -> tuple[Path, Path]:
    """PCK over the difference of viewpoint; where that is not annotated, it counts as none."""
    from simsc.pictures import plot_lines

    turns = np.array([turn(each.pair) or 0 for each in judged])
    places = np.unique(turns)
    shares = {choice: np.array([each.by_name[choice] for each in judged]) for choice in MIRRORS}
    means = {choice: [100 * float(each[turns == place].mean()) for place in places] for choice, each in shares.items()}
    lines = {f"mirror {choice}": (places, np.array(each)) for choice, each in means.items()}
    return plot_lines(lines, path, xlabel="difference of viewpoint (degrees)", ylabel="PCK@0.1 by name (%)")


def _drawn(sample: Sample, context: Context) -> tuple[list[Pair], list[Annotated | None]]:
    """Pairs of a split, and their targets where all of the key-points are known by name."""
    chance = np.random.default_rng(context.seeds[0])
    count = sample.pairs
    if sample.data == "spair":
        drawn = listed_pairs(sample, chance, context.meter.root)
        return drawn, [None] * len(drawn)
    objects: list[Annotated] = []
    members: dict[str, list[Annotated]] = defaultdict(list)
    every = load_objects(sample.data, context.meter.root, sample.split)
    for one in (every[index] for index in chance.permutation(len(every)).tolist()):
        if one.box is not None and len(members[one.category]) < sample.images:
            members[one.category].append(one)
            objects.append(one)
    found: list[tuple[Pair, Annotated]] = []
    for index in chance.integers(len(objects), size=20 * count).tolist():
        first = objects[index]
        second = members[first.category][int(chance.integers(len(members[first.category])))]
        if first.image.key != second.image.key and len(common_points(first, second)):
            found.append((pair_of(first, second, f"{len(found)}"), second))
        if len(found) == count:
            break
    return [pair for pair, _ in found], [target for _, target in found]


def listed_pairs(sample: Sample, chance: np.random.Generator, root: Path | None) -> list[Pair]:
    """Pairs of a split's list, few enough images being in them that each is encoded only once."""
    pairs = [p for p in load_pairs(sample.data, root, sample.split) if sample.category in (None, p.category)]
    groups: dict[str, dict[str, None]] = defaultdict(dict)
    for index in chance.permutation(len(pairs)).tolist():
        groups[pairs[index].category][pairs[index].source.key] = None
    known = {key for images in groups.values() for key in list(images)[: sample.images]}
    inside = [pair for pair in pairs if {pair.source.key, pair.target.key} <= known]
    return [inside[index] for index in chance.permutation(len(inside))[: sample.pairs].tolist()]


def _judge(model: Trained, pairs: Sequence[Pair], targets: Sequence[Annotated | None]) -> list[Judged]:
    """All pairs at each choice of the mirror, category by category: every image is encoded once."""
    rules = find_protocol(model.protocol)
    judged = []
    for category in sorted({pair.category for pair in pairs}):
        chosen = [index for index, pair in enumerate(pairs) if pair.category == category]
        encoder: ImageEncoder = KeepingEncoder(
            model.network, rules, side=model.image_size if rules.own_side else None, batch_size=4
        )
        asked = [pairs[index] for index in chosen]
        found = {
            choice: Evaluator(encoder, model.localizer, model.beta_eval, mirror=choice).predict(asked)
            for choice in MIRRORS
        }
        for place, index in enumerate(chosen):
            judged.append(_judged(pairs[index], targets[index], {name: each[place] for name, each in found.items()}))
    return judged


def _judged(pair: Pair, target: Annotated | None, found: Mapping[str, Prediction]) -> Judged:
    by_name, either = {}, {}
    for choice, prediction in found.items():
        right = _near(prediction.predicted, pair.target_points, pair)
        by_name[choice] = float(right.mean())
        if target is not None:
            right = right | _near(prediction.predicted, twin_places(pair.point_names, target), pair)
        either[choice] = float(right.mean())
    return Judged(pair, found["auto"].mirrored, by_name, either)


def _near(found: np.ndarray, places: np.ndarray, pair: Pair) -> np.ndarray:
    """Which points ``(n,)`` lie near places ``(n, 2)``; NaN is nowhere."""
    assert pair.target_box is not None
    x0, y0, x1, y1 = pair.target_box
    near: np.ndarray = np.linalg.norm(found - places, axis=1) <= RADIUS * max(x1 - x0, y1 - y0)
    return near


def twin_places(names: Sequence[str], target: Annotated) -> np.ndarray:
    """Where the twins of key-points lie in the target ``(n, 2)``; NaN where they have none or it does not show."""
    known = {
        name: place for name, place, seen in zip(target.point_names, target.points, target.present, strict=True) if seen
    }
    nowhere = np.full(2, np.nan)
    return np.array([known.get(twin(name) or "", nowhere) for name in names])


def turn(pair: Pair) -> int | None:
    """By how many degrees the viewpoints of a pair differ, 0 to 180; None where they are not annotated."""
    views = [view.azimuth for view in (pair.source_view, pair.target_view) if view is not None]
    if len(views) < 2 or views[0] is None or views[1] is None:
        return None
    steps = abs(views[0] - views[1]) % SECTORS
    return min(steps, SECTORS - steps) * 360 // SECTORS


def _degrees(judged: Judged) -> str | None:
    angle = turn(judged.pair)
    return None if angle is None else f"{angle} degrees"


def _grouped(prefix: str, judged: Sequence[Judged], key: Callable[[Judged], str | None]) -> list[Row]:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        if (name := key(each)) is not None:
            groups[name].append(each)
    return [_row(prefix + name, groups[name]) for name in sorted(groups, key=lambda name: (len(name), name))]


def _row(name: str, judged: Sequence[Judged]) -> Row:
    def mean(shares: Sequence[float]) -> float:
        return 100 * float(np.mean(shares))

    named = {choice: mean([each.by_name[choice] for each in judged]) for choice in MIRRORS}
    either = {choice: mean([each.either_side[choice] for each in judged]) for choice in MIRRORS}
    values: dict[str, Any] = {"pairs": len(judged), "mirrored": mean([each.mirrored for each in judged])}
    cells = {"pairs": str(len(judged)), "auto mirrors (%)": number(values["mirrored"])}
    cells |= {f"{choice}, by name": number(named[choice]) for choice in MIRRORS}
    cells |= {f"{choice}, either side": number(either[choice]) for choice in MIRRORS}
    return Row(name, cells, values={**values, "by_name": named, "either_side": either})
