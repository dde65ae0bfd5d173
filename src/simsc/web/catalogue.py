"""Which models the server offers, under which labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simsc.errors import ConfigError
from simsc.models.card import find_model, packaged_models, split_head
from simsc.models.specs import find_backbone, list_backbones
from simsc.models.weights import find_weights

_RUN_FILES = ("best", "last")


def offered_models(names: Sequence[str] = ()) -> dict[str, str]:
    """Labels and what ``simsc.load`` takes for them; the first is the default.

    Args:
        names: packaged models, files, run folders or backbones, with or without a head; by default the packaged
            models and every backbone whose weights are on this machine, so that switching never starts a download.
    """
    chosen = list(names) or [*packaged_models(), *_local_backbones()]
    if not chosen:
        raise ConfigError("there is no model to serve: name one with --model, for example --model resnet50")
    for name in chosen:
        find_model(name)  # refuses a misspelt name now, not at the first click
    offered: dict[str, str] = {}
    for name in chosen:
        offered[_unused(label(name), offered)] = name
    return offered


def label(name: str) -> str:
    """A short name for people; says nothing about where files lie.

    >>> label("runs/first/best.safetensors"), label("models/small.safetensors"), label("resnet50")
    ('first', 'small', 'resnet50')
    """
    path = Path(name)
    if path.suffix != ".safetensors":
        return path.name if path.is_dir() else name
    return path.parent.name if path.stem in _RUN_FILES and path.parent.name else path.stem


def describe(name: str) -> str:
    """One line about a model, known without loading it."""
    if find_model(name) is not None:
        return "trained with SimSC"
    _, head = split_head(name)
    return f"pre-trained features{'' if head == 'none' else f', head {head}'}, constant temperature"


def _unused(wanted: str, taken: dict[str, str]) -> str:
    if wanted not in taken:
        return wanted
    number = 2
    while f"{wanted} ({number})" in taken:
        number += 1
    return f"{wanted} ({number})"


def _local_backbones() -> list[str]:
    return [name for name in list_backbones() if find_weights(find_backbone(name)) is not None]
