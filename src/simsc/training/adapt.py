"""``simsc adapt``: a trained model made better for one's own few labelled photographs, in minutes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from simsc.data.catalog import DATASETS, Threshold
from simsc.data.pairing import by_category, can_pair, draw_pairs
from simsc.data.records import Annotated, Pair, pair_of
from simsc.errors import ConfigError, DataError
from simsc.files import Lock
from simsc.models import DEFAULT
from simsc.models.card import Card, find_model
from simsc.models.trained import Trained
from simsc.reading import read_json
from simsc.training.config import Config
from simsc.training.data import RunData, Validation, spread_evenly
from simsc.training.listener import Listener
from simsc.training.sampler import ListedPairs
from simsc.training.trainer import SELECTION_ALPHA, Trainer

HELD_OUT = 0.25
"""Part of a category's photographs that is held out, where it has enough of them."""
FEW = 5
"""A category of fewer photographs spares none: a part of its key-points is held out instead."""
MOST_PAIRS = 300
"""Pairs that are measured."""
DOUBTFUL = 1
"""COCO's visibility of a key-point that a transfer is unsure of."""
STEPS = 160
"""Steps of training that are spread over the epochs."""
BATCH = 6
RECIPE = {
    "trainable": "last-block",
    "batch_size": BATCH,
    "schedule": "cosine",
    "patience": 4,
    "cache": "memory",
    "log_every": 10,
    "freeze_batchnorm": True,
}


@dataclass(frozen=True)
class Adapted:
    """What became of an adaptation; PCK by alpha, in percent, on what was held out.

    Attributes:
        out: folder of the model; the start's own where nothing was gained.
        before, after: of the start, and of what is kept.
        held_out: what was held out, as a sentence.
        photographs: how many were trained on.
    """

    out: Path
    before: dict[str, float]
    after: dict[str, float]
    held_out: str
    photographs: int

    @property
    def gained(self) -> bool:
        """Whether the adapted model is better than the start."""
        key = str(SELECTION_ALPHA)
        return self.after[key] > self.before[key]


@dataclass(frozen=True)
class Split:
    """Objects to learn from, pairs to measure on, and what was held out, as a sentence."""

    train: list[Annotated]
    validation: list[Pair]
    held_out: str


def adapt(
    photos: str | Path,
    out: str | Path,
    *,
    start: str | Path | None = None,
    epochs: int = 8,
    seed: int = 0,
    device: str = "auto",
    resume: bool = False,
    listener: Listener | None = None,
) -> Adapted:
    """Fine-tune a model on own key-points in COCO's format, from two photographs of a category up.

    A part is held out. The model is measured on it before training and after every epoch, and the best is kept, be it
    the start.

    Args:
        photos: the COCO file.
        out: folder of the run, which is also the name of the model.
        start: a packaged model, a model file or a run folder; None for the packaged default.
        epochs: how often to measure; the number of steps does not depend on it much.
        seed: decides what is held out and in what order training goes.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        resume: continue an adaptation that was interrupted.
        listener: told how it is going.
    """
    path = Path(photos)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; adapt needs key-points in COCO's format")
    objects = without_doubt(DATASETS["coco"].objects(path, "test"), path)
    return adapt_objects(
        objects, out, start=start, epochs=epochs, seed=seed, device=device, resume=resume, listener=listener, name=path
    )


def adapt_objects(
    objects: Sequence[Annotated],
    out: str | Path,
    *,
    start: str | Path | None = None,
    epochs: int = 8,
    seed: int = 0,
    device: str = "auto",
    resume: bool = False,
    listener: Listener | None = None,
    name: str | Path = "the photographs",
    steps: int = STEPS,
) -> Adapted:
    """:func:`adapt` for objects in memory; ``name`` says in errors what they are."""
    split = hold_out(objects, seed, name)
    pairs = [turned for pair in draw_pairs(split.train, None, seed) for turned in (pair, pair.swapped())]
    if not pairs or not split.validation:
        raise DataError(f"{name}: adapting needs two photographs of a category with a key-point in common")
    config = adaptation(start, len(pairs), epochs, seed, steps)
    data = RunData(
        ListedPairs([spread_evenly(pairs, config.max_pairs)], config),
        (Validation(str(name), split.validation, _threshold(split.validation)),),
        (f"Held out: {split.held_out}.",),
    )
    with Lock(out, folder=True):
        trainer = Trainer(config, out, device=device, resume=resume, listener=listener, data=data)
        trainer.run()
        _keep_calibration(trainer.folder.best, Card.read(_trained_file(start)))
    photographs = len({one.image.key for one in split.train})
    before = next(record["val"] for record in trainer.folder.read_metrics() if "val" in record)
    return Adapted(Path(out), before, dict(trainer.best.val), split.held_out, photographs)


def without_doubt(objects: Sequence[Annotated], path: Path) -> list[Annotated]:
    """Objects of a COCO file without the key-points that a transfer was unsure of and nobody has looked at."""
    annotations = read_json(path)["annotations"]
    doubtful = {
        str(annotation.get("id", index)): np.array(annotation["keypoints"][2::3]) == DOUBTFUL
        for index, annotation in enumerate(annotations)
        if "keypoint_scores" in annotation
    }
    kept = [replace(one, present=one.present & ~doubtful[one.name]) if one.name in doubtful else one for one in objects]
    return [one for one in kept if one.present.any()]


def adaptation(start: str | Path | None, pairs: int, epochs: int, seed: int, steps: int = STEPS) -> Config:
    """The configuration that adapts a model to so many pairs."""
    name = str(start or DEFAULT)
    card = Card.read(_trained_file(start))
    in_epoch = max(BATCH, min(pairs, steps * BATCH // max(epochs, 1)))
    changes = {**asdict(card.design), **RECIPE, "start": name, "data": "coco", "seed": seed}
    if card.image_size is not None:
        changes["image_size"] = card.image_size
    changes |= {"localizer": card.localizer, "coherent": card.coherent, "beta_eval": card.beta_eval}
    changes["max_pairs"] = in_epoch
    # Few pairs make short epochs: more of them then, for the same number of steps.
    changes["epochs"] = min(4 * epochs, max(epochs, steps * BATCH // in_epoch)) if epochs else 0
    return Config().updated(changes)


def _trained_file(start: str | Path | None) -> Path:
    path = find_model(start or DEFAULT)
    if path is None:
        raise ConfigError(f"start = {start}: adapting needs a trained model, a packaged one, a file or a run folder")
    return path


def _keep_calibration(path: Path, start: Card) -> None:
    """Give an adapted model the calibration of its start: too few photographs are held out to fit another one."""
    if start.calibration is not None:
        Trained.open(path).described(calibration=start.calibration).save(path)


def hold_out(objects: Sequence[Annotated], seed: int, name: str | Path = "the photographs") -> Split:
    """Divide objects: photographs of categories that have enough of them, else key-points, are held out.

    A held-out photograph is measured as a target of those that are trained on: that is how it will be used.
    """
    train: list[Annotated] = []
    pairs: list[Pair] = []
    photographs, points = 0, 0
    for category, members in by_category(objects).items():
        images = sorted({one.image.key for one in members})
        if len(images) < 2:
            train += members
            continue
        chance = random.Random(f"{seed}/{category}/adapt")
        if len(images) >= FEW:
            held = set(chance.sample(images, max(1, round(HELD_OUT * len(images)))))
            known = [one for one in members if one.image.key not in held]
            new = [one for one in members if one.image.key in held]
            train += known
            pairs += [pair_of(source, target) for source in known for target in new if can_pair(source, target)]
            photographs += len(held)
            continue
        names = sorted(set(np.flatnonzero(np.any([one.present for one in members], axis=0)).tolist()))
        hidden = chance.sample(names, max(1, round(HELD_OUT * len(names)))) if len(names) > 1 else []
        train += [_only(one, [index for index in names if index not in hidden]) for one in members]
        rest = [_only(one, hidden) for one in members]
        pairs += draw_pairs([one for one in rest if one.present.any()], None, seed)
        points += len(hidden)
    parts = [f"{photographs} photographs"] if photographs else []
    parts += [f"{points} key-points of categories with fewer than {FEW} photographs"] if points else []
    if not parts:
        raise DataError(f"{name}: adapting needs two photographs of a category with a key-point in common")
    train = [one for one in train if one.present.any()]
    return Split(train, spread_evenly(pairs, MOST_PAIRS), " and ".join(parts))


def _only(one: Annotated, indices: Sequence[int]) -> Annotated:
    """An object with some of its key-points only."""
    kept = np.zeros_like(one.present)
    kept[list(indices)] = True
    return replace(one, present=one.present & kept)


def _threshold(pairs: Sequence[Pair]) -> Threshold:
    return "bbox" if all(pair.target_box is not None for pair in pairs) else "img"
