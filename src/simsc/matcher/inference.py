"""A model made ready to answer questions quickly, on the device of choice."""

from __future__ import annotations

import copy

import torch

from simsc.engine.inference import prepare_for_inference
from simsc.errors import ConfigError
from simsc.models.model import SimSC


def inference_copy(model: SimSC) -> SimSC:
    """A copy for inference: BatchNorm folded, evaluation mode, no gradients."""
    return prepare_for_inference(copy.deepcopy(model))


def pick_device(name: str = "auto") -> torch.device:
    """``auto`` takes CUDA, then Apple's, then the CPU.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise ConfigError(f"device '{name}' is not available; allowed: auto, cpu, cuda, mps") from None
    return device
