"""Features as a backbone would give them to a head."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from simsc.coordinates import Size
from simsc.matching.features import Features
from simsc.models.heads.base import Head


def random_features(head: Head, size: Size, seed: int = 0, batch: int = 2, beta: float = 0.5) -> Features:
    """Double precision maps of every level the head reads, with the sizes of its backbone's levels."""
    generator = torch.Generator().manual_seed(seed)
    maps = [
        torch.rand(
            batch, level.channels, *(round(s * level.scale) for s in size), generator=generator, dtype=torch.float64
        )
        for level in head.levels
    ]
    temperature = torch.full((batch, 1, 1), beta, dtype=torch.float64)
    return Features(maps[-1], temperature, (size[0] * 16, size[1] * 16), tuple(maps[:-1]))


@pytest.fixture
def features() -> Callable[..., Features]:
    return random_features
