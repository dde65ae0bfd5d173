"""Queries first, against the full correlation tensor."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from simsc.bench.measure import alternate, extra_bytes
from simsc.bench.ratio import Ratio
from simsc.matching.bilinear import neighbours
from simsc.matching.confidence import peak_probability
from simsc.matching.dense import dense_match
from simsc.matching.features import Features
from simsc.matching.localize import localize
from simsc.matching.scores import query_scorer, unit_features


def _features(side: int, channels: int, seed: int) -> Features:
    maps = torch.randn(1, channels, side, side, generator=torch.Generator().manual_seed(seed))
    return Features(maps, torch.full((1, 1, 1), 0.17), (side * 16, side * 16))


def _as_encoded(features: Features) -> Features:
    """The same features as a model prepared for inference leaves them in memory: channels last."""
    return replace(features, maps=features.maps.contiguous(memory_format=torch.channels_last))


def full_scores(source: Tensor, target: Tensor) -> Tensor:
    """The whole tensor ``(1, hw, h, w)`` of scores between all cells of unit features: what is avoided."""
    return (source.flatten(2).transpose(1, 2) @ target.flatten(2)).unflatten(2, target.shape[-2:])


def full_query(source: Tensor, target: Tensor, points: Tensor) -> Tensor:
    """Matches of points ``(1, n, 2)`` in cells, interpolated from the full tensor of unit features."""
    scores = full_scores(source, target)
    cells, weights = neighbours(points, (source.shape[-2], source.shape[-1]))
    around = scores[0, cells[0].flatten()].unflatten(0, cells.shape[1:])
    return localize((around * weights[0, :, :, None, None]).sum(dim=1)[None], "kernel-soft-argmax")


def full_dense(source: Features, target: Features) -> tuple[Tensor, Tensor]:
    """Matches and confidences of all cells through the full tensor."""
    scores = full_scores(unit_features(source.maps, source.beta), unit_features(target.maps, target.beta))
    return localize(scores, "kernel-soft-argmax"), peak_probability(scores)


@torch.inference_mode()
def bench_queries(quick: bool = False) -> list[Ratio]:
    """20 queries on a 64x64 map."""
    side, channels = (24, 64) if quick else (64, 1024)
    source, target = _features(side, channels, 0), _features(side, channels, 1)
    points = torch.rand(1, 20, 2, generator=torch.Generator().manual_seed(2)) * (side - 1)

    left, right = _as_encoded(source), _as_encoded(target)
    # What depends on the images alone is done once per image, on both sides: norms here, unit features there.
    scores = query_scorer(left.maps, right.maps, left.beta, right.beta)
    units = unit_features(source.maps, source.beta), unit_features(target.maps, target.beta)

    def ours() -> Tensor:
        return localize(scores(points), "kernel-soft-argmax")

    def full() -> Tensor:
        return full_query(*units, points)

    torch.testing.assert_close(ours(), full(), rtol=0, atol=1e-2)
    seconds = alternate({"ours": ours, "full": full}, repeats=3 if quick else 7)
    lean, fat = extra_bytes(ours), extra_bytes(full)
    return [
        Ratio(
            f"20 queries on {side}x{side}, faster than the full tensor",
            seconds["full"] / seconds["ours"],
            50,
            at_least=True,
            detail=f"{1e3 * seconds['ours']:.1f} ms against {1e3 * seconds['full']:.1f} ms",
        ),
        Ratio(
            f"20 queries on {side}x{side}, leaner than the full tensor",
            fat / lean,
            8,
            at_least=True,
            detail=f"{lean / 2**20:.1f} MB against {fat / 2**20:.1f} MB",
        ),
    ]


@torch.inference_mode()
def bench_dense(quick: bool = False) -> list[Ratio]:
    """Every cell of a 64x64 map."""
    side, channels = (24, 64) if quick else (64, 1024)
    source, target = _features(side, channels, 0), _features(side, channels, 1)
    left, right = _as_encoded(source), _as_encoded(target)
    seconds = alternate(
        {"ours": lambda: dense_match(left, right), "full": lambda: full_dense(source, target)},
        repeats=3 if quick else 5,
    )
    memory = extra_bytes(lambda: dense_match(left, right)) / 2**20
    full_memory = extra_bytes(lambda: full_dense(source, target)) / 2**20
    return [
        Ratio(
            f"dense {side}x{side}, extra memory",
            memory,
            64,
            at_least=False,
            unit="MB",
            detail=f"{full_memory:.0f} MB with the full tensor",
        ),
        Ratio(
            f"dense {side}x{side}, time against the full tensor",
            seconds["ours"] / seconds["full"],
            1.0,
            at_least=False,
            detail=f"{seconds['ours']:.2f} s against {seconds['full']:.2f} s",
        ),
    ]
