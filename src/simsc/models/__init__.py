"""Backbones, their weights, the temperature, and the model. Names resolve on first use: nothing heavy at import."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Backbone": "backbone",
    "BackboneSpec": "specs",
    "SimSC": "model",
    "Source": "specs",
    "build_backbone": "backbone",
    "find_backbone": "specs",
    "fold_batchnorm": "inference",
    "list_backbones": "specs",
}

__all__ = [*_HOMES, "DEFAULT", "QUICK"]

DEFAULT = "simsc-vits"
"""The packaged model that every command uses by default."""
QUICK = "simsc-resnet50"
"""The packaged model for machines and tasks where speed counts more."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
