"""Devices and precisions by name."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from simsc.errors import ConfigError, unknown_name

PRECISIONS = ("float32", "bf16", "auto")
"""What a network computes in: ``auto`` is bf16 where the device is quick with it, else float32."""


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


def pick_precision(name: str, device: torch.device) -> torch.dtype | None:
    """What products and convolutions are computed in on a device; None for that of the weights.

    >>> pick_precision("bf16", torch.device("cpu"))
    torch.bfloat16
    """
    if name not in PRECISIONS:
        raise ConfigError(unknown_name("precision", name, PRECISIONS))
    if name == "float32" or (name == "auto" and not quick_with_bf16(device)):
        return None
    return torch.bfloat16


def quick_with_bf16(device: torch.device) -> bool:
    """Whether a device has instructions for products of bfloat16; elsewhere they are emulated and slow."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    able: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # PyTorch before 2.10 cannot tell
    return any(bool(able.get(name)) for name in ("avx512_bf16", "amx_bf16", "bf16"))
