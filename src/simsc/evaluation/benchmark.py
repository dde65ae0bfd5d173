"""Evaluation of a model on a named data set: what ``simsc evaluate`` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simsc import distributed
from simsc.data.sources import DatasetInfo, dataset_info, load_pairs
from simsc.errors import DataError
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator, Progress, first
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import Protocol, find_protocol
from simsc.evaluation.scoring import score
from simsc.models.checkpoints import read_description
from simsc.models.inference import prepare_for_inference
from simsc.models.model import SimSC
from simsc.models.zoo import find_model, open_model

CLEAN = "clean"
"""Subset reported beside the official test split where that split leaks."""


def load_for_evaluation(name: str, temperature: float | None = None, device: str = "auto") -> SimSC:
    """A model of :func:`simsc.models.zoo.open_model`, optionally at a fixed temperature."""
    place = distributed.local_device(device)  # refused, if at all, before anything slow
    model = open_model(name)
    if temperature is not None:
        model.set_temperature(f"fixed:{temperature}")
    return prepare_for_inference(model).to(place)


def evaluation_settings(name: str) -> dict[str, Any]:
    """Localiser and evaluation temperature a model was trained for; empty for a backbone."""
    path = find_model(name)
    description = read_description(path) if path is not None else {}
    return {key: description[key] for key in ("localizer", "beta_eval") if key in description}


def evaluate_model(
    model: SimSC,
    data: str,
    root: str | Path | None = None,
    split: str = "test",
    protocol: str = "paper-256",
    *,
    localizer: str = "kernel-soft-argmax",
    beta_eval: float = 1.0,
    limit: int | None = None,
    progress: Progress | None = None,
    encoder: ImageEncoder | None = None,
) -> tuple[dict[str, Any], list[Prediction]]:
    """Result and predictions of a model on a split; shards over processes and merges exactly.

    ``encoder`` is the model's own, under the same protocol, where several evaluations share what it keeps.
    """
    rules = find_protocol(protocol)
    info = dataset_info(data)
    pairs = first(load_pairs(data, root, split), limit)
    evaluator = Evaluator(encoder or ImageEncoder(model, rules), localizer, beta_eval)
    found = distributed.gather_lists(evaluator.predict(distributed.my_share(pairs), progress))
    predictions = [replace(item, protocol=rules.name, threshold=info.threshold) for item in found]
    result = {
        "data": data,
        "split": split,
        "localizer": localizer,
        **score(predictions, rules, info.threshold).to_dict(),
    }
    if split == "test" and CLEAN in info.splits:
        result.update(_clean_subset(predictions, rules, info, root))
    return result, predictions


def _clean_subset(
    predictions: Sequence[Prediction], rules: Protocol, info: DatasetInfo, root: str | Path | None
) -> dict[str, Any]:
    """Figures of the test pairs that do not leak from training; a note where the data cannot tell which these are."""
    try:
        names = {pair.name for pair in load_pairs(info.name, root, CLEAN)}
    except DataError as error:
        return {"note": f"no figures for the clean subset: {error}"}
    kept = [item for item in predictions if item.pair.removesuffix("~swapped") in names]
    return {"subsets": {CLEAN: score(kept, rules, info.threshold).to_dict()}} if kept else {}
