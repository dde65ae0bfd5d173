"""A few images in a folder, and manifests about them."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from simsc.bulk.worker import Settings
from simsc.matcher import Matcher, load
from simsc.models import QUICK
from simsc.models.backbone import from_spec
from simsc.models.calibration import Calibration
from simsc.models.model import SimSC
from simsc.models.specs import find_backbone
from simsc.models.trained import Trained

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


@pytest.fixture(scope="session")
def vit() -> Matcher:
    """A transformer of two blocks with up-sampled features, coherence and a calibration, all weights random."""
    spec = find_backbone("vit_small_patch14.dinov2")
    sizes = {"heads": 2, "hidden": 64, "positions": 4}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = from_spec(replace(spec, settings={**spec.settings, **sizes}, channels=96, blocks=2))
        network = SimSC(
            backbone, temperature="fixed:0.01", trainable="none", head="upsampled:layers=1,hidden=32"
        ).eval()
    random = np.random.default_rng(2)
    right, present = (tuple(random.normal(0, 0.2, 91).tolist()) for _ in range(2))
    center = (0.0, 1.0, 0.3, 0.9, 0.0, 0.0, 0.0, 0.1, 0.1, -1.0, -1.0, 2.0)
    scale = (2.0, 2.0, 0.2, 0.1, 2.0, 2.0, 2.0, 0.1, 0.1, 1.0, 1.0, 1.0)
    calibration = Calibration(center, scale, right, present, sure=0.6, none=0.3)
    return Matcher(Trained.of(network).described(calibration=calibration, coherent=True), size=126, device="cpu")


@pytest.fixture(scope="session")
def resnet() -> Matcher:
    return load(QUICK, size=128, device="cpu")


@pytest.fixture(params=["resnet", "vit"])
def network(request: pytest.FixtureRequest) -> Matcher:
    """A convolutional network and a transformer, both with a calibration."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def packaged(photos: Path) -> Settings:
    """The default model at a size that makes it quick."""
    return Settings(options=TINY, root=str(photos))


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
