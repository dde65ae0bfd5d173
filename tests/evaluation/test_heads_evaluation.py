"""Any head is evaluated and trained as none is."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from simsc.data.sources import load_pairs
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator
from simsc.evaluation.protocol import find_protocol
from simsc.models.model import SimSC
from simsc.training.presets import load_preset
from simsc.training.trainer import Trainer


def test_sharing_images_gives_the_same_as_pair_by_pair(head_model: SimSC, tiny_root: Path) -> None:
    pairs = load_pairs("pairs", tiny_root, "test")
    encoder = ImageEncoder(head_model, find_protocol("paper-256@64"))
    together = Evaluator(encoder).predict(pairs)
    bounded = Evaluator(encoder, max_images=2).predict(pairs)
    for one, other, pair in zip(together, bounded, pairs, strict=True):
        (alone,) = Evaluator(encoder).predict([pair])
        assert one.pair == pair.name
        for found in (other, alone):
            np.testing.assert_allclose(one.predicted, found.predicted, atol=1e-3)
            np.testing.assert_allclose(one.confidence, found.confidence, atol=1e-4)


@pytest.mark.parametrize("name", ["sfnet", "ncnet", "cats"])
def test_the_preset_of_a_head_trains_it(
    name: str, small_head: Callable[[str], str], tiny_root: Path, tmp_path: Path
) -> None:
    preset = load_preset(name, "pairs")
    assert preset.head == name
    tiny = {"weights": "random", "image_size": 64, "epochs": 1, "batch_size": 2, "max_pairs": 2, "log_every": 1}
    config = preset.updated({**tiny, "head": small_head(name)})
    trainer = Trainer(config, tmp_path / "run", root=tiny_root, device="cpu")
    before = {key: value.clone() for key, value in trainer.model.state_dict().items()}
    assert trainer.run()["steps"] == 1
    (loss,) = (record["loss"] for record in trainer.folder.read_metrics() if "loss" in record)
    assert math.isfinite(loss)
    changed = {key for key, value in trainer.model.state_dict().items() if not torch.equal(value, before[key])}
    assert changed
    assert all(key.startswith("head.") for key in changed)
