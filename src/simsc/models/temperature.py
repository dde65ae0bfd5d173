"""The temperature learning module g (Sec. 3.2 of the paper) and its variants, chosen by name.

Each maps features ``(B, C, h, w)`` to temperatures ``(B, 1, 1)``, or ``(B, h, w)`` for ``per-pixel``. The effective
temperature of a pair is the product of its two. Features are detached: g never sends a gradient into the backbone.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from simsc.errors import ConfigError
from simsc.matching.features import at_least_float
from simsc.registry import Registry

FLOOR = 1e-4  # keeps log(beta) and division finite whatever the optimiser does
PRETRAINED_TEMPERATURE = 0.03
"""Effective temperature for features that have not learned one; the paper's models settle close to it."""


class MLPTemperature(nn.Module):
    """Global average pool, two linear layers, sigmoid: one temperature per image (Fig. 4 of the paper)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = max(channels // 4, 1)
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        _start_at_one_half(self.mlp[-1])

    def forward(self, features: Tensor) -> Tensor:
        """``(B, C, h, w)`` -> ``(B, 1, 1)``."""
        pooled = at_least_float(features.detach()).mean(dim=(2, 3))
        return _bounded_sigmoid(self.mlp(_like_weights(pooled, self)))[..., None]


class PerPixelTemperature(nn.Module):
    """The same two layers on every cell, a temperature map; goes beyond the paper."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = max(channels // 4, 1)
        self.mlp = nn.Sequential(nn.Conv2d(channels, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, 1, 1))
        _start_at_one_half(self.mlp[-1])

    def forward(self, features: Tensor) -> Tensor:
        """``(B, C, h, w)`` -> ``(B, h, w)``."""
        return _bounded_sigmoid(self.mlp(_like_weights(features.detach(), self)))[:, 0]


class SingleTemperature(nn.Module):
    """One learnable number for all images (supplement, "The single-parameter design")."""

    def __init__(self, start: float = 0.5) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(start))

    def forward(self, features: Tensor) -> Tensor:
        """``(B, C, h, w)`` -> ``(B, 1, 1)``."""
        # A smooth absolute value, not a clamp: near and past zero a gradient still leads back.
        return torch.hypot(self.beta, self.beta.new_tensor(FLOOR)).expand(features.shape[0], 1, 1)


class FixedTemperature(nn.Module):
    """A constant effective temperature, split evenly between the two images; ``fixed:1`` is WithL2Norm."""

    beta: Tensor

    def __init__(self, effective: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("beta", torch.tensor(effective, dtype=torch.float64).sqrt().float())

    def forward(self, features: Tensor) -> Tensor:
        """``(B, C, h, w)`` -> ``(B, 1, 1)``."""
        return self.beta.expand(features.shape[0], 1, 1)


TEMPERATURES: Registry[Callable[[int], nn.Module]] = Registry("temperature")
"""From the number of channels to a module; ``fixed`` also takes its number, as in ``fixed:0.03``."""

TEMPERATURES.add("mlp", MLPTemperature)
TEMPERATURES.add("single", lambda channels: SingleTemperature())  # noqa: ARG005
TEMPERATURES.add("fixed", lambda channels: FixedTemperature())  # noqa: ARG005
TEMPERATURES.add("per-pixel", PerPixelTemperature)


def build_temperature(name: str, channels: int) -> nn.Module:
    """The temperature module of that name.

    >>> build_temperature("fixed:0.04", channels=8)(torch.rand(2, 8, 3, 3)).flatten()
    tensor([0.2000, 0.2000])
    """
    kind, effective = check_temperature(name)
    return FixedTemperature(effective) if kind == "fixed" else TEMPERATURES[kind](channels)


def check_temperature(name: str) -> tuple[str, float]:
    """Kind and constant (1 where it learns) of a temperature's name; refuses unknown ones.

    >>> check_temperature("fixed:0.04")
    ('fixed', 0.04)
    """
    kind, _, argument = name.partition(":")
    if kind == "fixed":
        return kind, _positive(argument or "1", name)
    _ = TEMPERATURES[name]
    return name, 1.0


def learns(name: str) -> bool:
    """Whether a temperature of that name has anything to learn."""
    return not name.startswith("fixed")


def _positive(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise ConfigError(f"temperature '{name}': expected fixed:<number greater than 0>, for example fixed:0.03")
    return value


def _start_at_one_half(last: nn.Module) -> None:
    """Small weights and no bias: beta starts at sigmoid(0), the effective temperature at a quarter."""
    assert isinstance(last, nn.Linear | nn.Conv2d)
    nn.init.normal_(last.weight, std=0.01)
    if last.bias is not None:
        nn.init.zeros_(last.bias)


def _like_weights(features: Tensor, module: nn.Module) -> Tensor:
    return features.to(next(module.parameters()).dtype)


def _bounded_sigmoid(logits: Tensor) -> Tensor:
    """Sigmoid squeezed into ``(FLOOR, 1)``; a clamp would stop the gradient that leads back up."""
    return FLOOR + (1 - FLOOR) * torch.sigmoid(at_least_float(logits))
