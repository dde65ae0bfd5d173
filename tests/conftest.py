"""What all tests share: fixed random numbers, and a model whose features can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simsc.models.backbones import Backbone
from simsc.models.model import SimSC
from simsc.models.registry import BackboneSpec, Source

CELL = 16


class CellColors(Backbone):
    """A cell's feature depends on nothing but its mean colour; different colours are almost orthogonal."""

    def __init__(self, channels: int = 64) -> None:
        spec = BackboneSpec("cell-colors", "test", channels, CELL, 0, "none", Source("none"))
        super().__init__(spec)
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(12 * torch.randn(channels, 3, 1, 1, generator=generator))
        self.bias = nn.Parameter(7 * torch.rand(channels, generator=generator))

    def embed(self, images: Tensor) -> Tensor:
        return torch.sin(F.conv2d(F.avg_pool2d(images, CELL), self.weight, self.bias))

    def run_blocks(self, state: Tensor, start: int, stop: int, image_size: tuple[int, int]) -> Tensor:
        return state

    def to_map(self, state: Tensor, image_size: tuple[int, int], final: bool) -> Tensor:
        return state

    def tail_modules(self) -> list[nn.Module]:
        return []

    def stage_blocks(self) -> int:
        return 1

    def grid_size(self, image_size: tuple[int, int]) -> tuple[int, int]:
        return image_size[0] // CELL, image_size[1] // CELL


@pytest.fixture(scope="session")
def color_model() -> SimSC:
    """Matches cells by their mean colour, at a temperature so sharp that the best cell takes all."""
    return SimSC(CellColors(), temperature="fixed:0.005", trainable="none").eval()


@pytest.fixture(scope="session")
def mosaic() -> Callable[..., np.ndarray]:
    """An image of ``rows x columns`` cells of 16x16 pixels, each of another colour."""

    def build(rows: int = 16, columns: int = 16, seed: int = 0) -> np.ndarray:
        colors = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), dtype=np.uint8)
        return colors.repeat(CELL, axis=0).repeat(CELL, axis=1)

    return build


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    """Each test draws the same random numbers, whatever ran before it."""
    torch.manual_seed(0)
