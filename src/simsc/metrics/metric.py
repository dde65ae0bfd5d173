"""PCK as a ``torchmetrics.Metric``: accumulates counts, so that processes merge exactly by adding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from simsc.errors import ConfigError, unknown_name
from simsc.metrics.pck import ALPHAS, correct_points


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
        index = torch.tensor([self._index(name) for name in category], device=self.pairs.device)
        correct = correct_points(predicted, truth, mask, base, self.alphas, self.strict).sum(dim=1).double()
        points = mask.sum(dim=1).double()
        seen = points > 0
        rates = correct / points.clamp(min=1)[:, None]
        self.pair_rates.index_add_(0, index, rates.to(self.pairs.device))
        self.correct.index_add_(0, index, correct.to(self.pairs.device))
        self.points.index_add_(0, index, points.to(self.pairs.device))
        self.pairs.index_add_(0, index, seen.double().to(self.pairs.device))

    def compute(self) -> dict[str, Any]:
        """All figures, in percent."""
        return {
            "per_image": self._percent(self.pair_rates.sum(0), self.pairs.sum()),
            "per_point": self._percent(self.correct.sum(0), self.points.sum()),
            "per_category": {
                name: self._percent(self.pair_rates[i], self.pairs[i])
                for i, name in enumerate(self.categories)
                if self.pairs[i] > 0
            },
            "pairs": int(self.pairs.sum()),
            "points": int(self.points.sum()),
        }

    def _percent(self, part: Tensor, whole: Tensor) -> dict[float, float]:
        values = (100 * part / whole).tolist()
        return dict(zip(self.alphas, values, strict=True))

    def _index(self, category: str) -> int:
        if category not in self.categories:
            raise ConfigError(unknown_name("category", category, self.categories))
        return self.categories.index(category)
