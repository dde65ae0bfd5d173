"""PCK as a ``torchmetrics.Metric``: accumulates counts, so that processes merge exactly by adding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from simsc.metrics.counts import PCKCounts, count_pck, summarize
from simsc.metrics.pck import ALPHAS


class PCK(Metric):
    r"""Percentage of correct key-points, per image, per point and per category.

    .. math:: PCK(I^A, I^B) = \frac{1}{n} \sum_q [\,\|\bar x_q - x_q\| \le \alpha \theta\,]

    ``update`` takes predictions and truth ``(B, N, 2)``, ``mask (B, N)``, ``base (B,)`` and the category of each pair;
    ``compute`` gives ``{"per_image": {alpha: percent}, "per_point": {...}, "per_category": {name: {alpha: percent}},
    "pairs": n, "points": n}``. All states are sums: distributed evaluation is exact, provided that each pair is
    seen by one process only.

    >>> metric = PCK(["cat"], alphas=[0.1])
    >>> metric.update(torch.zeros(1, 1, 2), torch.ones(1, 1, 2), torch.tensor([[True]]), torch.tensor([20.0]), ["cat"])
    >>> metric.compute()["per_image"]
    {0.1: 100.0}
    """

    full_state_update = False
    pair_rates: Tensor
    pairs: Tensor
    correct: Tensor
    points: Tensor

    def __init__(
        self, categories: Sequence[str], alphas: Sequence[float] = ALPHAS, strict: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.categories = sorted(set(categories))
        self.alphas = tuple(alphas)
        self.strict = strict
        count, width = len(self.categories), len(self.alphas)
        for name, shape in {"pair_rates": (count, width), "correct": (count, width)}.items():
            self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")
        for name in ("pairs", "points"):
            self.add_state(name, torch.zeros(count, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, predicted: Tensor, truth: Tensor, mask: Tensor, base: Tensor, category: Sequence[str]) -> None:
        """Count a batch of pairs; pairs without a valid point are left out."""
        counts = count_pck(predicted, truth, mask, base, category, self.categories, self.alphas, self.strict)
        for name, value in counts._asdict().items():
            getattr(self, name).add_(value.to(self.pairs.device))

    def compute(self) -> dict[str, Any]:
        """All figures, in percent."""
        counts = PCKCounts(self.pair_rates, self.correct, self.pairs, self.points)
        return summarize(counts, self.categories, self.alphas)
