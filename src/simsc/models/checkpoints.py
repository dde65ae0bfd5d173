"""Models on disk: one safetensors file with all weights and a description that rebuilds the network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from simsc.errors import WeightsError
from simsc.files import atomic_path
from simsc.models.backbone import build_backbone
from simsc.models.model import SimSC
from simsc.models.weights import modern_names

MODEL_KEYS = (
    "backbone",
    "temperature",
    "trainable",
    "head",
    "normalize",
    "query",
    "convention",
    "final_norm",
    "freeze_batchnorm",
)
"""The part of a configuration that describes the network."""


def build_model(description: Mapping[str, Any], weights: str | Path | None = "default", seed: int = 0) -> SimSC:
    """The network a configuration describes; ``weights`` are the backbone's.

    >>> build_model({"backbone": "resnet50", "temperature": "single"}, weights=None).temperature_name
    'single'
    """
    options = {key: description[key] for key in MODEL_KEYS if key in description}
    if weights == "unset" and options.get("head", "none") != "none":
        weights = None  # a head may run its backbone to see what its layers look like
    final_norm = options.pop("final_norm", True)
    backbone = build_backbone(options.pop("backbone"), weights, final_norm=final_norm, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SimSC(backbone, **options)


def save_model(model: SimSC, path: str | Path, description: Mapping[str, Any], half: bool = False) -> None:
    """Write all weights and the description atomically; ``half`` stores matrices and kernels as float16.

    Vectors stay as they are: they are small, and statistics of a normalisation can exceed what float16 holds.
    """
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if half:
        tensors = {
            name: tensor.half() if tensor.is_floating_point() and tensor.ndim > 1 else tensor
            for name, tensor in tensors.items()
        }
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={"simsc": json.dumps(dict(description))})


def read_description(path: str | Path) -> dict[str, Any]:
    """The description stored in a model file; refuses files that are not this project's."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise WeightsError(f"{path}: no such model file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path}: not a readable safetensors file ({error})") from None
    if "simsc" not in metadata:
        raise WeightsError(f"{path}: holds no model description; expected a file written by simsc")
    return dict(json.loads(metadata["simsc"]))


def load_model(path: str | Path) -> SimSC:
    """The model stored in a file, in evaluation mode and float32."""
    from safetensors.torch import load_file

    description = read_description(path)
    model = build_model(description, weights="unset")
    tensors = {
        name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in load_file(str(path)).items()
    }
    try:
        model.load_state_dict(modern_names(tensors, model.state_dict()), assign=True)
    except RuntimeError as error:
        raise WeightsError(f"{path}: the weights do not fit the network it describes: {error}") from None
    return model.eval()
