"""Where weights come from, and how a file gets into a network. No pickle is ever executed."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

from simsc.downloads import Progress, download
from simsc.errors import WeightsError
from simsc.files import cache_folder, sha256, shared_folder
from simsc.models.registry import BackboneSpec

if TYPE_CHECKING:
    from torch import Tensor

    from simsc.models.backbone import Backbone

_SHOWN = 6


def weights_path(spec: BackboneSpec) -> Path:
    """Where the file of an entry is downloaded to, and can be put by hand."""
    return cache_folder() / "weights" / spec.source.file


def find_weights(spec: BackboneSpec) -> Path | None:
    """The file of an entry on this machine, or None."""
    places = (weights_path(spec), shared_folder() / "weights" / spec.source.file)
    return next((place for place in places if place.is_file()), None)


def fetch_weights(spec: BackboneSpec, progress: Progress | bool = True) -> Path:
    """The verified file of an entry; downloaded if it is not on this machine."""
    source = spec.source
    if path := find_weights(spec):
        if source.sha256 and not (found := sha256(path)).startswith(source.sha256):
            raise WeightsError(f"{path} is damaged: its SHA-256 is {found}, expected {source.sha256}; delete it")
        return path
    if source.url is None:
        raise WeightsError(
            f"the weights of {spec.name} are not on this machine and cannot be downloaded directly "
            f"({source.address}); put the file at {weights_path(spec)}"
        )
    return download(source.url, weights_path(spec), sha256=source.sha256, progress=progress)


def load_weights(backbone: Backbone, path: Path | None = None) -> None:
    """Load a file, by default the registry's, into a backbone.

    Args:
        backbone: changed in place.
        path: safetensors, or a file of ``torch.save`` that holds tensors, in any layout of
            :mod:`simsc.models.keymaps`.

    Raises:
        WeightsError: the file is missing, damaged, holds Python objects, or does not fit.
    """
    from simsc.models.keymaps import to_our_keys

    path = path or fetch_weights(backbone.spec)
    try:
        tensors = to_our_keys(read_tensors(path), backbone.spec.family)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    check_fit(backbone, tensors, path)
    backbone.load_state_dict(tensors, strict=False)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file by name, without executing anything in it."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from simsc.models.keymaps import unwrap

    if not path.is_file():
        raise WeightsError("no such file")
    try:
        if path.suffix == ".safetensors":
            return unwrap(load_file(path))
        # Training checkpoints carry their options: a plain holder of values, safe to build.
        with torch.serialization.safe_globals([argparse.Namespace]):
            return unwrap(torch.load(path, map_location="cpu", weights_only=True))
    except pickle.UnpicklingError:
        raise WeightsError("holds Python objects besides tensors, which are never loaded") from None
    except (SafetensorError, RuntimeError, EOFError, AttributeError) as error:
        raise WeightsError(f"not a readable weights file ({error})") from None


def check_fit(backbone: Backbone, tensors: dict[str, Tensor], path: Path) -> None:
    """Refuse tensors that are not exactly those of the backbone; says which keys are at fault."""
    own = {key: value for key, value in backbone.state_dict().items() if not key.endswith("num_batches_tracked")}
    given = {key: value for key, value in tensors.items() if not key.endswith("num_batches_tracked")}
    faults = {
        "missing": [key for key in own if key not in given],
        "unexpected": [key for key in given if key not in own],
        "of the wrong shape": [
            f"{key} {tuple(given[key].shape)} instead of {tuple(value.shape)}"
            for key, value in own.items()
            if key in given and given[key].shape != value.shape
        ],
    }
    if found := [f"{len(keys)} keys {fault}: {_some(keys)}" for fault, keys in faults.items() if keys]:
        raise WeightsError(f"{path} does not fit {backbone.spec.name}; " + "; ".join(found))


def _some(keys: list[str]) -> str:
    more = f", and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more
