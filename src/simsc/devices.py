"""Devices by name."""

from __future__ import annotations

import torch

from simsc.errors import ConfigError


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
