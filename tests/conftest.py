"""What all tests share: fixed random numbers, a model whose features can be worked out by hand, a tiny data set."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from simsc.data.records import Pair
from simsc.data.sources import load_pairs
from simsc.models.backbone import Backbone, from_spec
from simsc.models.heads import HEADS
from simsc.models.model import SimSC
from simsc.models.specs import BackboneSpec, find_backbone
from simsc.training.config import Config

CELL = 16
SMALL_HEADS = {"sfnet": "sfnet:hidden=16", "cats": "cats:grid=4,appearance=8,heads=2"}
"""Options for heads that are slow with their defaults."""


class CellColors(Backbone):
    """A cell's feature depends on nothing but its mean colour; different colours are almost orthogonal."""

    def __init__(self, channels: int = 64) -> None:
        spec = BackboneSpec("cell-colors", channels, CELL, 0, "none", CellColors)
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


@pytest.fixture(scope="session")
def color_model() -> SimSC:
    """Matches cells by their mean colour, at a temperature so sharp that the best cell takes all."""
    return SimSC(CellColors(), temperature="fixed:0.005", trainable="none").eval()


class SidedColors(CellColors):
    """A cell's feature depends on the colours of its left and its right half, so a mirror changes it."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__(channels)
        generator = torch.Generator().manual_seed(1)
        self.weight = nn.Parameter(12 * torch.randn(channels, 6, 1, 1, generator=generator))

    def embed(self, images: Tensor) -> Tensor:
        halves = F.avg_pool2d(images, (CELL, CELL // 2))
        return torch.sin(F.conv2d(torch.cat([halves[..., ::2], halves[..., 1::2]], dim=1), self.weight, self.bias))


@pytest.fixture(scope="session")
def sided_model() -> SimSC:
    """As ``color_model``, but cells look different in a mirror."""
    return SimSC(SidedColors(), temperature="fixed:0.005", trainable="none").eval()


@pytest.fixture(scope="session")
def mosaic() -> Callable[..., np.ndarray]:
    """An image of ``rows x columns`` cells of 16x16 pixels, each of another colour."""

    def build(rows: int = 16, columns: int = 16, seed: int = 0) -> np.ndarray:
        colors = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), dtype=np.uint8)
        return colors.repeat(CELL, axis=0).repeat(CELL, axis=1)

    return build


@pytest.fixture(scope="session")
def small_head() -> Callable[[str], str]:
    """The name of a head, with options that make it quick."""
    return lambda name: SMALL_HEADS.get(name, name)


@pytest.fixture(params=list(HEADS))
def head_model(request: pytest.FixtureRequest, small_head: Callable[[str], str]) -> SimSC:
    """Each head in turn on a small ResNet; all weights are random."""
    spec = find_backbone("resnet50.v1_in1k")
    sizes = {"depths": (2, 1, 3), "widths": (16, 32, 64), "stem": 8}
    spec = replace(spec, settings={**spec.settings, **sizes}, channels=64, blocks=6)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SimSC(from_spec(spec), "fixed:0.05", "none", head=small_head(request.param)).eval()


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    """Each test draws the same random numbers, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with ``train`` (every pair in both orders), ``val`` and ``test`` of own pairs; images of two sizes."""
    root = tmp_path_factory.mktemp("tiny")
    generator = np.random.default_rng(0)
    sizes = [(48, 64), (64, 48), (56, 56), (48, 64), (64, 64), (40, 64)]
    for number, size in enumerate(sizes):
        coarse = generator.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((size[1], size[0]), Image.Resampling.BICUBIC).save(root / f"{number}.png")
    both_orders = [(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4), (0, 2), (2, 0)]
    splits = {"train": both_orders, "val": [(0, 1), (1, 2), (3, 4)], "test": [(0, 1), (0, 2), (1, 2), (3, 2), (4, 5)]}
    for split, pairs in splits.items():
        entries = [{**_entry(a, b, sizes, generator), "category": "ab"[a % 2]} for a, b in pairs]
        (root / f"{split}.json").write_text(json.dumps(entries))
    return root


def _entry(a: int, b: int, sizes: list[tuple[int, int]], generator: np.random.Generator) -> dict:
    count = int(generator.integers(2, 5))
    return {
        side: {
            "image": f"{index}.png",
            "points": (generator.random((count, 2)) * [sizes[index][1] - 1, sizes[index][0] - 1]).tolist(),
        }
        for side, index in (("source", a), ("target", b))
    }


@pytest.fixture(scope="session")
def coco_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with ``train.json`` of two categories of nine objects each in COCO format, and no validation file."""
    root = tmp_path_factory.mktemp("coco") / "birds"
    (root / "images").mkdir(parents=True)
    generator = np.random.default_rng(1)
    images, annotations = [], []
    for number in range(18):
        coarse = generator.integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((64, 48), Image.Resampling.BICUBIC).save(root / "images" / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png"})
        points = [[*(generator.random(2) * [60, 44]).tolist(), 2] for _ in range(3)]
        flat = [value for point in points for value in point]
        annotations.append({"id": number, "image_id": number, "category_id": number % 2, "keypoints": flat})
        annotations[-1]["bbox"] = [1, 1, 60, 44]
    categories = [{"id": number, "name": f"kind {number}", "keypoints": ["a", "b", "c"]} for number in range(2)]
    content = {"images": images, "categories": categories, "annotations": annotations}
    (root / "train.json").write_text(json.dumps(content))
    return root


@pytest.fixture
def tiny_pairs(tiny_root: Path) -> list[Pair]:
    return load_pairs("pairs", tiny_root, "train")


@pytest.fixture
def tiny_config() -> Config:
    return Config(
        backbone="resnet50.v1_in1k",
        weights="random",
        data="pairs",
        image_size=64,
        epochs=2,
        batch_size=4,
        log_every=1,
        cache="memory",
    )
