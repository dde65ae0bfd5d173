"""A running average of the weights: steadier than the last step's, and what is validated and kept when it is on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Exponential moving average of a model's learning parameters; with ``decay`` 0 it is the parameters themselves.

    Over the first steps the average follows faster, so that it forgets the weights that training started from:
    step n (from 1) keeps at most ``n / (n + 9)`` of the average before it.

    Args:
        model: whose parameters to average; buffers (statistics of BatchNorm) are left as they are.
        decay: share of the average that each step keeps, at least 0 and below 1; 0.999 looks back about 1000 steps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        learning = {name: p for name, p in model.named_parameters() if p.requires_grad} if decay else {}
        self._parameters: list[Tensor] = list(learning.values())
        self.tensors: dict[str, Tensor] = {name: p.detach().clone() for name, p in learning.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the parameters after step number ``step`` (from 1) into the average."""
        if self.tensors:
            kept = min(self.decay, step / (step + 9))
            torch._foreach_lerp_(list(self.tensors.values()), self._parameters, 1 - kept)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within this context the model has the averaged weights."""
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
        for parameter, average in zip(self._parameters, self.tensors.values(), strict=True):
            current = parameter.clone()
            parameter.copy_(average)
            average.copy_(current)
