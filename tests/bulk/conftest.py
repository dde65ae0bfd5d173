"""A few images in a folder, and manifests about them."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from simsc.bulk.worker import Settings
from simsc.matcher import Matcher
from simsc.models import QUICK
from simsc.models.model import SimSC

collect_ignore_glob = [] if find_spec("pyarrow") else ["test_*.py"]  # without the extra `bulk` there is nothing to test

TINY: dict[str, Any] = {"size": 64, "device": "cpu"}
"""Options that make the packaged model quick."""


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six images of coloured tiles, of different sizes."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for index in range(6):
        tiles = random.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(tiles).resize((96 + 16 * index, 128), Image.Resampling.NEAREST).save(folder / f"{index}.png")
    return folder


@pytest.fixture
def matcher(color_model: SimSC) -> Matcher:
    return Matcher(color_model, size=128, device="cpu")


@pytest.fixture
def tiny(photos: Path) -> Settings:
    return Settings(model=QUICK, options=TINY, root=str(photos))


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """All 36 pairs of the photos, each with three points of its own."""
    random = np.random.default_rng(1)
    rows = [
        {"source": f"{a}.png", "target": f"{b}.png", "points": random.uniform(0, 90, (3, 2)).round(2).tolist()}
        for a in range(6)
        for b in range(6)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
