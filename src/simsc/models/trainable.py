"""Which part of a backbone learns, chosen by name, and at which rate."""

from __future__ import annotations

import re

from simsc.errors import ConfigError, unknown_name
from simsc.models.backbone import Backbone

TRAINABLE = "none, last-block, last-<k>, last-stage or all"


def tail_blocks(trainable: str, backbone: Backbone) -> int:
    """How many of the last blocks ``trainable`` names; ``num_blocks + 1`` is everything."""
    if backbone.num_blocks == 0 and trainable not in ("none", "all"):
        raise ConfigError(
            f"trainable '{trainable}' is not allowed for {backbone.spec.name}, which cannot be cut; allowed: none, all"
        )
    if trainable == "last-stage":
        return backbone.stage_blocks()
    counts = {"none": 0, "last-block": 1, "all": backbone.num_blocks + 1}
    if trainable in counts:
        return counts[trainable]
    match = re.fullmatch(r"last-(\d+)", trainable)
    if not match or not 1 <= int(match[1]) <= backbone.num_blocks:
        raise ConfigError(
            f"trainable '{trainable}' is not allowed; allowed: {TRAINABLE} with k from 1 to {backbone.num_blocks}"
        )
    return int(match[1])


def check_trainable(trainable: str) -> None:
    """Refuse a misspelt name before there is a backbone."""
    names = ("none", "last-block", "last-stage", "all")
    if trainable not in names and not re.fullmatch(r"last-\d+", trainable):
        raise ConfigError(unknown_name("trainable", trainable, (*names, "last-<k>")))


def paper_rates(trainable: str, temperature: str) -> dict[str, float]:
    """The paper's learning rates: smaller for the whole backbone, larger for a single temperature parameter.

    >>> paper_rates("all", "mlp")
    {'backbone': 2e-05, 'temperature': 0.0001, 'head': 0.0001}
    """
    return {
        "backbone": 2e-5 if trainable == "all" else 1e-4,
        "temperature": 5e-3 if temperature == "single" else 1e-4,
        "head": 1e-4,
    }
