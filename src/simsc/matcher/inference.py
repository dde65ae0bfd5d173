"""A model made ready to answer questions quickly, on the device of choice."""

from __future__ import annotations

import copy

import torch

from simsc.errors import ConfigError
from simsc.models.folding import fold_batchnorm
from simsc.models.model import SimSC


def inference_copy(model: SimSC) -> SimSC:
    """A copy for inference: BatchNorm folded, evaluation mode, no gradients."""
    folded = fold_batchnorm(model.backbone)
    # The memo makes the copy take the folded backbone in the place of the original one.
    fast = copy.deepcopy(model, {id(model.backbone): folded}).eval()
    return fast.requires_grad_(False)


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
