"""A data set of a few small pictures, and a configuration that trains on it within seconds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from simsc.data.records import Pair
from simsc.data.registry import load_pairs
from simsc.engine.config import Config


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
