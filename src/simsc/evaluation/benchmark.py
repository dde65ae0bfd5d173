"""Evaluation of a model on a named data set: what ``simsc evaluate`` does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from simsc import distributed
from simsc.data.records import Pair
from simsc.data.sources import DatasetInfo, dataset_info, load_pairs
from simsc.errors import DataError
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator, Progress, first
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import Protocol, find_protocol
from simsc.evaluation.scoring import Score, score
from simsc.matching.mirror import Mirror
from simsc.models.trained import Trained
from simsc.processes import spread, usual_workers

CLEAN, UNSEEN = "clean", "unseen"
"""Subsets reported beside the official test split where that split leaks."""
PAYS = 2000
"""Pairs that a process of its own must have to do: it takes seconds to start."""


@dataclass(frozen=True)
class Evaluation:
    """What a model reaches on a split, and how it was used.

    Attributes:
        data, split: the pairs.
        localizer: how score maps became points.
        score: figures of all pairs.
        predictions: of each pair, in their order.
        subsets: figures of the pairs that do not leak from training, by name, where the official split leaks.
        note: why there are none, where the data cannot tell which these are.
        input_size: side of the network's input where it is not the protocol's, else None.
        coherent: whether the matches around a point were heeded.
        flip: whether it is the flipped ensemble.
        mirror: what was asked for; ``mirrored`` says in how many pairs the mirror image was matched.
    """

    data: str
    split: str
    localizer: str
    score: Score
    predictions: Sequence[Prediction]
    subsets: Mapping[str, Score] = field(default_factory=dict)
    note: str = ""
    input_size: int | None = None
    coherent: bool = False
    flip: bool = False
    mirror: Mirror = "no"

    @property
    def mirrored(self) -> int:
        """Pairs in which the mirror image of the source was matched."""
        return sum(item.mirrored for item in self.predictions)

    def to_dict(self) -> dict[str, Any]:
        """Plain values without the predictions, for JSON; what is usual is left out."""
        record: dict[str, Any] = {"data": self.data, "split": self.split, "localizer": self.localizer}
        if self.input_size is not None:
            record["input_size"] = self.input_size
        record |= {name: True for name in ("coherent", "flip") if getattr(self, name)}
        if self.mirror != "no":
            record |= {"mirror": self.mirror, "mirrored": self.mirrored}
        record |= self.score.to_dict()
        if self.note:
            record["note"] = self.note
        if self.subsets:
            record["subsets"] = {name: part.to_dict() for name, part in self.subsets.items()}
        return record


def evaluate_model(
    model: Trained,
    data: str,
    root: str | Path | None = None,
    split: str = "test",
    protocol: str | None = None,
    *,
    localizer: str | None = None,
    beta_eval: float | None = None,
    temperature: float | None = None,
    size: int | None = None,
    flip: bool = False,
    mirror: Mirror = "no",
    limit: int | None = None,
    workers: int | None = 1,
    progress: Progress | None = None,
    encoder: ImageEncoder | None = None,
) -> Evaluation:
    """Figures and predictions of a model on a split; shards over processes and merges exactly.

    What is not given is the model's own: protocol, localiser, evaluation temperature, and the input size where the
    protocol leaves it to the model.

    Args:
        model: what is measured.
        data, root, split: the pairs.
        protocol: see :mod:`simsc.evaluation.protocol`.
        localizer: how score maps become points.
        beta_eval: temperature on top of the model's.
        temperature: a fixed effective temperature instead of the model's own and its evaluation temperature.
        size: side of the network's input; distances are measured as the protocol says all the same.
        flip: flipped ensemble: match the mirrored pair too and average the score maps.
        mirror: match the mirror image of the source: ``no``, ``yes``, or ``auto`` where it suits the target better.
        limit: only the first so many pairs.
        workers: processes of this machine; None for as many as pay, at most one a core. Several agree with one to less
            than a thousandth of a pixel: digits depend on what is computed together.
        progress: told how many pairs of how many are done.
        encoder: the model's own, under the same protocol, where several evaluations share what it keeps.
    """
    rules, info = find_protocol(protocol or model.protocol), dataset_info(data)
    pairs = first(load_pairs(data, root, split), limit)
    encoder = encoder or ImageEncoder(model.network, rules, side=size or (model.image_size if rules.own_side else None))
    if beta_eval is None:
        beta_eval = model.beta_eval if temperature is None else 1.0
    evaluator = Evaluator(encoder, localizer or model.localizer, beta_eval, temperature, flip, mirror=mirror)
    found = distributed.gather_lists(_predicted(evaluator, distributed.my_share(pairs), workers, progress))
    predictions = [replace(item, protocol=rules.name, threshold=info.threshold) for item in found]
    subsets, note = _subsets(predictions, rules, info, root) if split == "test" else ({}, "")
    return Evaluation(
        data=data,
        split=split,
        localizer=evaluator.localizer,
        score=score(predictions, rules, info.threshold),
        predictions=predictions,
        subsets=subsets,
        note=note,
        input_size=encoder.side if encoder.side != rules.side else None,
        coherent=model.network.head.coherent,
        flip=flip,
        mirror=mirror,
    )


def _predicted(
    evaluator: Evaluator, pairs: Sequence[Pair], workers: int | None, progress: Progress | None
) -> list[Prediction]:
    """Predictions for pairs in their order, category by category in several processes where there are many."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        kinds[pair.category].append(index)
    parts = sorted(kinds.values(), key=len, reverse=True)  # the last to end are then short
    on_disk = all(ref.render is None for pair in pairs for ref in (pair.source, pair.target))
    paying = len(parts) if workers else min(len(pairs) // PAYS, len(parts)) * on_disk
    count = usual_workers(evaluator.encoder.device, workers, paying)
    if count == 1 or distributed.world_size() > 1 or not evaluator.encoder.travels:
        return evaluator.predict(pairs, progress)
    found: dict[int, Prediction] = {}
    tasks = ((part, [pairs[index] for index in part]) for part in parts)
    for part, predictions in spread(partial(_Predictor, evaluator), tasks, count, evaluator.encoder.model):
        found.update(zip(part, predictions, strict=True))
        if progress:
            progress(len(found), len(pairs))
    return [found[index] for index in range(len(pairs))]


class _Predictor:
    """Predicts pairs that are known by number."""

    def __init__(self, evaluator: Evaluator, workers: int) -> None:
        self.evaluator = evaluator
        self.evaluator.max_bytes //= workers

    def __call__(self, task: tuple[list[int], list[Pair]]) -> tuple[list[int], list[Prediction]]:
        return task[0], self.evaluator.predict(task[1])


def _subsets(
    predictions: Sequence[Prediction], rules: Protocol, info: DatasetInfo, root: str | Path | None
) -> tuple[dict[str, Score], str]:
    """Figures of the test pairs that do not leak from training; a note where the data cannot tell which these are."""
    found: dict[str, Score] = {}
    for subset in (CLEAN, UNSEEN):
        if subset not in info.splits:
            continue
        try:
            names = {pair.name for pair in load_pairs(info.name, root, subset)}
        except DataError as error:
            return {}, f"no figures for the {subset} subset: {error}"
        kept = [item for item in predictions if item.pair.removesuffix("~swapped") in names]
        if kept:
            found[subset] = score(kept, rules, info.threshold)
    return found, ""
