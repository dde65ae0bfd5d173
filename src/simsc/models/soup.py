"""Several trained models as one: the mean of their weights ("model soup", Wortsman et al., ICML 2022).

Models that were fine-tuned from the same start lie in one basin, and the mean of their weights is often better than
each of them, at the cost of one. Only the backbone (and a head) is averaged: a temperature module starts at random, so
two of them have nothing in common, unit by unit; the first model's is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simsc.errors import ConfigError
from simsc.models.checkpoints import MODEL_KEYS, load_model, read_description
from simsc.models.model import SimSC

_FREE_KEYS = ("trainable", "freeze_batchnorm")
"""Say how a network was trained, not what it computes."""


def average_models(files: Sequence[Path], shares: Sequence[float] | None = None) -> tuple[SimSC, dict[str, Any]]:
    """The mean of models of the same network, and its description: the first one's, without a training's result.

    The temperature module is the first model's.

    Args:
        files: model files.
        shares: weight of each, above 0; they need not sum to 1. None for equal shares.
    """
    shares = [1.0] * len(files) if shares is None else shares
    if not files or len(shares) != len(files) or not all(share > 0 for share in shares):
        raise ConfigError(f"{len(files)} models and {len(shares)} shares: expected one share above 0 per model")
    descriptions = [read_description(file) for file in files]
    for file, description in zip(files, descriptions, strict=True):
        _check_same_network(files[0], descriptions[0], file, description)
    models = [load_model(file) for file in files]
    total, mean = sum(shares), models[0].state_dict()
    for name, first in mean.items():
        if first.is_floating_point() and not name.startswith("temperature."):
            parts = (model.state_dict()[name] * (share / total) for model, share in zip(models, shares, strict=True))
            first.copy_(sum(parts))
    kept = {key: value for key, value in descriptions[0].items() if key != "best"}
    return models[0], {**kept, "averaged": len(files)}


def _check_same_network(first: Path, expected: dict[str, Any], file: Path, found: dict[str, Any]) -> None:
    for key in MODEL_KEYS:
        if key not in _FREE_KEYS and found.get(key) != expected.get(key):
            raise ConfigError(
                f"{file} has {key} = {found.get(key)}, but {first} has {expected.get(key)}; "
                "only models of the same network can be averaged"
            )
