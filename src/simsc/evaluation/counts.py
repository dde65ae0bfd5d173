"""What PCK is made of: counts per category. They add up over batches and processes, so merging is exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from simsc.errors import ConfigError, unknown_name
from simsc.evaluation.pck import ALPHAS, correct_points


class PCKCounts(NamedTuple):
    """Sums over pairs, for K categories and A alphas, in float64.

    Attributes:
        pair_rates: ``(K, A)`` sum of the pairs' shares of correct points.
        correct: ``(K, A)`` number of correct points.
        pairs: ``(K,)`` number of pairs with at least one point.
        points: ``(K,)`` number of points.
    """

    pair_rates: Tensor
    correct: Tensor
    pairs: Tensor
    points: Tensor


def count_pck(
    predicted: Tensor,
    truth: Tensor,
    mask: Tensor,
    base: Tensor,
    category: Sequence[str],
    categories: Sequence[str],
    alphas: Sequence[float] = ALPHAS,
    strict: bool = False,
) -> PCKCounts:
    """Count a batch: points ``(B, N, 2)``, ``mask (B, N)``, ``base (B,)`` and each pair's category."""
    position = {name: index for index, name in enumerate(categories)}
    if unknown := [name for name in category if name not in position]:
        raise ConfigError(unknown_name("category", unknown[0], categories))
    index = torch.tensor([position[name] for name in category], device=mask.device)
    correct = correct_points(predicted, truth, mask, base, alphas, strict).sum(dim=1).double()
    points = mask.sum(dim=1).double()
    rates = correct / points.clamp(min=1)[:, None]
    table = torch.zeros(len(categories), len(alphas), dtype=torch.float64, device=mask.device)
    column = table.new_zeros(len(categories))
    return PCKCounts(
        pair_rates=table.index_add(0, index, rates),
        correct=table.index_add(0, index, correct),
        pairs=column.index_add(0, index, (points > 0).double()),
        points=column.index_add(0, index, points),
    )


def summarize(counts: PCKCounts, categories: Sequence[str], alphas: Sequence[float] = ALPHAS) -> dict[str, Any]:
    """All figures in percent: per image, per point, and per category (per image).

    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> summarize(PCKCounts(one, one, one[0], 2 * one[0]), ["cat"], [0.1])["per_point"]
    {0.1: 50.0}
    """

    def percent(part: Tensor, whole: Tensor) -> dict[float, float]:
        return dict(zip(alphas, (100 * part / whole).tolist(), strict=True))

    return {
        "per_image": percent(counts.pair_rates.sum(0), counts.pairs.sum()),
        "per_point": percent(counts.correct.sum(0), counts.points.sum()),
        "per_category": {
            name: percent(counts.pair_rates[index], counts.pairs[index])
            for index, name in enumerate(categories)
            if counts.pairs[index] > 0
        },
        "pairs": int(counts.pairs.sum()),
        "points": int(counts.points.sum()),
    }
