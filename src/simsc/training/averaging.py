"""A running average of the weights: steadier than the last step's, and what is validated and kept when it is on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Exponential moving average of what changes in a model; with ``decay`` 0 it is the model's own values.

    Over the first steps the average follows faster, so that it forgets the weights that training started from:
    step n (from 1) keeps at most ``n / (n + 9)`` of the average before it.

    Args:
        model: whose learning parameters and BatchNorm statistics to average: averaged weights need averaged statistics.
        decay: share of the average that each step keeps, at least 0 and below 1; 0.999 looks back about 1000 steps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        changing = _changing(model) if decay else {}
        self._values: list[Tensor] = list(changing.values())
        self.tensors: dict[str, Tensor] = {name: value.detach().clone() for name, value in changing.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the values after step number ``step`` (from 1) into the average."""
        if self.tensors:
            kept = min(self.decay, step / (step + 9))
            torch._foreach_lerp_(list(self.tensors.values()), self._values, 1 - kept)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within this context the model has the averaged values."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Continue from a stored average."""
        for name, average in self.tensors.items():
            average.copy_(tensors[name])

    @torch.no_grad()
    def _swap(self) -> None:
        for value, average in zip(self._values, self.tensors.values(), strict=True):
            current = value.clone()
            value.copy_(average)
            average.copy_(current)


def _changing(model: nn.Module) -> dict[str, Tensor]:
    """Learning parameters, and the statistics of all BatchNorms: those of frozen ones average to themselves."""
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    return parameters | {name: value for name, value in model.named_buffers() if "running_" in name}
