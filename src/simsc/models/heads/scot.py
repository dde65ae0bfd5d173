"""SCOT: optimal transport between hyperpixels, then Hough matching; needs no training (Liu et al., CVPR 2020)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from simsc.errors import ConfigError
from simsc.models.backbone import Backbone
from simsc.models.heads.hpf import HPF


class SCOT(HPF):
    """HPF whose votes are an optimal transport plan: a cell that fits everywhere no longer takes all matches.

    Both images have uniform marginals; the published method weights cells by class activation, which needs the
    classifier of the backbone.

    Args:
        backbone, layers, exponent, sigma: see :class:`~simsc.models.heads.hpf.HPF`.
        epsilon: weight of the entropy.
        iterations: of Sinkhorn's scaling.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        layers: tuple[int, ...] = (),
        exponent: float = 1.0,
        sigma: float = 1.0,
        epsilon: float = 0.05,
        iterations: int = 20,
    ) -> None:
        super().__init__(backbone, layers=layers, exponent=exponent, sigma=sigma)
        if min(epsilon, iterations) <= 0:
            raise ConfigError(f"head 'scot': epsilon = {epsilon} and iterations = {iterations} must be greater than 0")
        self.epsilon, self.iterations = epsilon, iterations

    def match(self, similarity: Tensor) -> Tensor:
        """The plan for the cost 1 - similarity, scaled so that each source cell has mass 1."""
        sizes = similarity.shape[1:]
        cost = 1 - similarity.flatten(3).flatten(1, 2)
        plan = sinkhorn(cost, self.epsilon, self.iterations) * cost.shape[1]
        result: Tensor = plan.unflatten(2, sizes[2:]).unflatten(1, sizes[:2])
        return result


def sinkhorn(cost: Tensor, epsilon: float, iterations: int) -> Tensor:
    """Entropic optimal transport: the plan ``(B, n, m)`` between uniform marginals for a cost ``(B, n, m)``.

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
