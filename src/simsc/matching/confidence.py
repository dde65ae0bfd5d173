"""How far a match can be trusted: the peak of its distribution, and whether it finds its way back."""

from __future__ import annotations

import torch
from torch import Tensor

from simsc.matching.scores import at_least_float


def peak_probability(scores: Tensor, beta: float = 1.0) -> Tensor:
    """Highest probability of the softmax of each score map ``(B, N, h, w)``: ``(B, N)`` in ``[1 / (hw), 1]``.

    >>> peak_probability(torch.zeros(1, 1, 2, 2)).item()
    0.25
    """
    logits = at_least_float(scores).flatten(2) / beta
    # The peak itself is exp(0): subtracting it first keeps the bounds exact however large the scores are.
    return torch.exp(logits - logits.amax(dim=2, keepdim=True)).sum(dim=2).reciprocal()


def cycle_error(points: Tensor, returned: Tensor) -> Tensor:
    """Distance ``(...)`` between queries ``(..., 2)`` and where their matches lead back to.

    >>> cycle_error(torch.tensor([[[1.0, 1.0]]]), torch.tensor([[[4.0, 5.0]]]))
    tensor([[5.]])
    """
    return torch.linalg.vector_norm(returned - points, dim=-1)


def cycle_confidence(error: Tensor, scale: float | Tensor) -> Tensor:
    """Forward-backward error as a confidence in ``[0, 1]``: 1 for a closed cycle, 1/e at an error of ``scale > 0``.

    >>> cycle_confidence(torch.tensor([0.0, 8.0]), scale=8.0)
    tensor([1.0000, 0.3679])
    """
    return torch.exp(-((error / scale) ** 2))
