"""Measurements are kept by everything they depend on, and by nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from simsc.experiments import measurements
from simsc.experiments.measurements import Meter, Subject, Target, pretrained
from simsc.training.config import Config

TARGET = Target("pairs", "Own pairs")
BASE = Config(backbone="resnet50.v1_in1k", weights="random", data="pairs", image_size=64)


def subject(folder: Path, **changes: object) -> Subject:
    return pretrained(BASE.updated(changes), folder)


def score(folder: Path, root: Path, **changes: object) -> dict:
    return Meter(root).measure(subject(folder, **changes), TARGET).score.to_dict()


@pytest.mark.parametrize("change", [{"convention": "corner"}, {"query": "sample-then-normalize"}, {"seed": 1}])
def test_what_changes_the_model_changes_the_measurement(tiny_root: Path, tmp_path: Path, change: dict) -> None:
    usual = score(tmp_path, tiny_root)
    assert score(tmp_path, tiny_root, **change) == score(tmp_path / "fresh", tiny_root, **change)
    files = list(tmp_path.glob("pretrained/*/measurements/*.json"))
    assert len(files) == 2
    assert score(tmp_path, tiny_root) == usual


def test_a_final_norm_makes_another_model(tmp_path: Path) -> None:
    plain, without = (subject(tmp_path, backbone="dinov2-small", final_norm=value) for value in (True, False))
    assert plain.identity() != without.identity()


def test_weights_are_known_by_their_content(tmp_path: Path) -> None:
    file = tmp_path / "weights.pth"
    file.write_bytes(b"one")
    one = subject(tmp_path, weights=str(file)).identity()
    file.write_bytes(b"other")
    assert subject(tmp_path, weights=str(file)).identity() != one


def test_a_training_option_does_not_matter_to_a_backbone_before_training(tmp_path: Path) -> None:
    assert subject(tmp_path).identity() == subject(tmp_path, rate=1e-3, epochs=7).identity()


def test_other_annotations_are_measured_again(tiny_root: Path, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(tiny_root, root)
    score(tmp_path, tiny_root)
    score(tmp_path, root)  # the same data at another place
    assert len(list(tmp_path.glob("pretrained/*/measurements/*.json"))) == 1
    entries = json.loads((root / "test.json").read_text())
    moved = np.array(entries[0]["target"]["points"])[::-1].tolist()
    entries[0]["target"]["points"] = moved
    (root / "test.json").write_text(json.dumps(entries))
    score(tmp_path, root)
    assert len(list(tmp_path.glob("pretrained/*/measurements/*.json"))) == 2


def test_other_code_measures_again(tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score(tmp_path, tiny_root)
    monkeypatch.setattr(measurements, "code_digest", lambda: "other")
    score(tmp_path, tiny_root)
    assert len(list(tmp_path.glob("pretrained/*/measurements/*.json"))) == 2


def test_a_loaded_model_is_not_taken_for_one_of_another_seed(tmp_path: Path) -> None:
    meter = Meter()
    one, other = (meter.load(subject(tmp_path, seed=seed)).network.state_dict() for seed in (0, 1))
    assert any(not np.array_equal(one[name], other[name]) for name in one)


def test_an_evaluation_that_fails_leaves_the_model_as_it_was(
    tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter, model = Meter(tiny_root), subject(tmp_path)
    before = meter.load(model).network.temperature

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no more memory")

    with monkeypatch.context() as patch:
        patch.setattr(measurements, "evaluate_model", fails)
        with pytest.raises(RuntimeError):
            meter.sweep(model, TARGET, [0.02, 0.1])
    assert meter.load(model).network.temperature is before
    own = meter.measure(model, TARGET).score.temperature
    assert own.mean == pytest.approx(1.0)
    assert [each.temperature.mean for each in meter.sweep(model, TARGET, [0.02, 0.1])] == [0.02, 0.1]
