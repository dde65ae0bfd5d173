"""Evaluation of a model on a named data set: what ``simsc evaluate`` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simsc.data.registry import dataset_info, load_pairs
from simsc.engine import distributed
from simsc.engine.encoder import ImageEncoder
from simsc.engine.evaluate import Evaluator, Progress, first
from simsc.engine.predictions import Prediction
from simsc.engine.scoring import score
from simsc.metrics.protocols import find_protocol
from simsc.models.checkpoints import build_model, load_model
from simsc.models.model import SimSC

CLEAN = "clean"
"""Subset reported beside the official test split where that split leaks."""


def load_for_evaluation(name: str, temperature: float | None = None, device: str = "auto") -> SimSC:
    """A model file, a run folder, or a backbone as it was pre-trained; optionally at a fixed temperature."""
    path = Path(name)
    if path.is_dir():
        path = path / "best.safetensors"
    if path.suffix == ".safetensors" or path.exists():
        model = load_model(path)
    else:
        model = build_model({"backbone": name, "temperature": "fixed:1", "trainable": "none"})
    if temperature is not None:
        model.set_temperature(f"fixed:{temperature}")
    return model.to(distributed.local_device(device)).eval()


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
) -> tuple[dict[str, Any], list[Prediction]]:
    """Result and predictions of a model on a split; shards over processes and merges exactly."""
    rules = find_protocol(protocol)
    info = dataset_info(data)
    pairs = first(load_pairs(data, root, split), limit)
    evaluator = Evaluator(ImageEncoder(model, rules), localizer, beta_eval)
    predictions = distributed.gather_lists(evaluator.predict(list(distributed.my_share(pairs)), progress))
    result = {"data": data, "split": split, "localizer": localizer, **score(predictions, rules, info.threshold)}
    if split == "test" and CLEAN in info.splits:
        clean = {pair.name for pair in load_pairs(data, root, CLEAN)}
        kept = [item for item in predictions if item.pair.removesuffix("~swapped") in clean]
        if kept:
            result["subsets"] = {CLEAN: score(kept, rules, info.threshold)}
    return result, predictions
