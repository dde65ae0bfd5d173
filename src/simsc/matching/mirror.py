"""Opposite viewpoints: whether the source suits the target better in a mirror.

What the cells of two images say when each names its nearest in the other decides; no key-point is asked.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.errors import ConfigError, unknown_name
from simsc.matching.features import at_least_float

Mirror = Literal["no", "auto", "yes"]
"""Match the source as it is, as ``auto`` finds better, or in a mirror."""
MIRRORS: tuple[Mirror, ...] = get_args(Mirror)

CELLS = 24
"""Finer maps are averaged to at most so many cells a side: the whole object counts here, not its last pixel."""
ADVANTAGE = 1.2
"""How many times more evidence the mirror image must have; chosen on validation pairs, see ``docs/matching.md``."""


def check_mirror(mirror: str) -> Mirror:
    """The choice of that name; a misspelt one is refused."""
    for known in MIRRORS:
        if mirror == known:
            return known
    raise ConfigError(unknown_name("mirror", mirror, MIRRORS))


def suits_better(source: Tensor, mirrored: Tensor, target: Tensor) -> bool:
    """Whether the mirror image of the source has more in common with the target than the source; maps ``(C, h, w)``."""
    return mutual_evidence(mirrored, target) > ADVANTAGE * mutual_evidence(source, target)


def mutual_evidence(source: Tensor, target: Tensor) -> float:
    """Total similarity of the cells of two maps that are one another's nearest.

    Args:
        source: ``(C, h, w)`` un-normalised features.
        target: ``(C, h', w')``.

    >>> one = torch.eye(4).reshape(4, 2, 2)
    >>> mutual_evidence(one, one), mutual_evidence(one, one[:, :, :1])
    (4.0, 2.0)
    """
    first, second = _rows(source), _rows(target)
    similarity = first @ second.T
    best, there = similarity.max(dim=1)
    back = similarity.argmax(dim=0)
    mutual = back[there] == torch.arange(len(first), device=first.device)
    return float(best[mutual].clamp(min=0).sum())


def _rows(maps: Tensor) -> Tensor:
    """``(cells, C)`` of length 1."""
    unit = F.normalize(at_least_float(maps), dim=0)
    size = min(maps.shape[-2], CELLS), min(maps.shape[-1], CELLS)
    if size != maps.shape[-2:]:
        unit = F.normalize(F.adaptive_avg_pool2d(unit[None], size)[0], dim=0)
    return unit.flatten(1).T
