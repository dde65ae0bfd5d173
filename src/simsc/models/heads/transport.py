"""Entropic optimal transport by Sinkhorn's iterations in log space."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinkhorn(cost: Tensor, epsilon: float, iterations: int) -> Tensor:
    """Transport plan ``(B, n, m)`` between uniform marginals for a cost ``(B, n, m)``.

    Rows sum to ``1 / n`` once converged, columns to ``1 / m`` always (they are scaled last). Logarithms keep it
    finite for any ``epsilon > 0``.

    Args:
        cost: price of moving mass from i to j.
        epsilon: weight of the entropy; the smaller, the sharper the plan.
        iterations: how often rows and columns are scaled.

    >>> cost = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> (sinkhorn(cost, epsilon=0.05, iterations=20) * 2).round()
    tensor([[[1., 0.],
             [0., 1.]]])
    """
    rows, columns = cost.shape[1:]
    logits = -cost / epsilon
    column_potential = logits.new_zeros(cost.shape[0], 1, columns)
    for _ in range(iterations):
        row_potential = -math.log(rows) - torch.logsumexp(logits + column_potential, dim=2, keepdim=True)
        column_potential = -math.log(columns) - torch.logsumexp(logits + row_potential, dim=1, keepdim=True)
    return torch.exp(logits + row_potential + column_potential)
