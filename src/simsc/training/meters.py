"""Averages of what happens between two lines of the metrics, over all processes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import nn

from simsc.distributed import sum_over_processes
from simsc.models.model import SimSC
from simsc.training.objective import LossParts

_FIELDS = ("total", "cross_entropy", "regularizer", "beta_source", "beta_target", "temperature", "pairs")


class StepMeter:
    """Sums the parts of the loss over steps and processes.

    Args:
        state: sums to go on from after a resume, see :meth:`state`.
    """

    def __init__(self, state: Sequence[float] | None = None) -> None:
        self.sums = torch.zeros(len(_FIELDS), dtype=torch.float64) if state is None else torch.tensor(state).double()
        self.started, self._before = time.monotonic(), float(self.sums[-1])

    def add(self, parts: LossParts, weight: float) -> None:
        """Count a step; ``weight`` is 0 for a process that only took part."""
        values = torch.stack([getattr(parts, name).detach() for name in _FIELDS]).cpu().double()
        self.sums += weight * values

    def state(self) -> list[float]:
        """Sums over all processes."""
        total: list[float] = sum_over_processes(self.sums).tolist()
        return total

    def means(self) -> dict[str, float]:
        """Means over pairs, and pairs per second; empty if every step was skipped."""
        sums = self.state()
        pairs = sums[-1]
        if not pairs:
            return {}
        total, entropy, regularizer, source, target, temperature = (value / pairs for value in sums[:-1])
        return {
            "loss": round(total, 6),
            "ce": round(entropy, 6),
            "reg": round(regularizer, 6),
            "beta_source": round(source, 6),
            "beta_target": round(target, 6),
            "temperature": round(temperature, 6),
            "pairs_per_second": round((pairs - self._before) / max(time.monotonic() - self.started, 1e-9), 2),
        }


def gradient_magnitudes(model: SimSC) -> dict[str, float]:
    """Mean absolute gradient of each convolution or linear layer of the last trainable block (supplement)."""
    blocks = model.backbone.tail_modules()
    layers = [
        module
        for module in (blocks[-1].modules() if blocks else ())
        if isinstance(module, nn.Conv2d | nn.Linear) and module.weight.grad is not None
    ]
    return {f"conv_{index}": float(layer.weight.grad.abs().mean()) for index, layer in enumerate(layers, 1)}  # type: ignore[union-attr]
