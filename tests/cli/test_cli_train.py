"""Train, evaluate and score from the command line, end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from simsc.cli import app
from simsc.errors import ConfigError, DownloadError


@pytest.fixture(scope="module")
def own_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("own")
    generator = np.random.default_rng(0)
    for name in "ab":
        coarse = generator.integers(0, 256, (5, 5, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((64, 48)).save(root / f"{name}.png")
    points = [[10, 10], [50, 40], [30, 20]]
    pairs = [
        {side: {"image": image, "points": points} for side, image in zip(("source", "target"), order, strict=True)}
        for order in (("a.png", "b.png"), ("b.png", "a.png"))
    ]
    for split in ("train", "val", "test"):
        (root / f"{split}.json").write_text(json.dumps(pairs))
    return root


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=True)


def test_train_evaluate_and_score(own_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    sets = [part for change in ("weights=random", "image_size=64", "log_every=1") for part in ("--set", change)]
    command = ["train", "--preset", "resnet50", "--data", "pairs", "--root", str(own_data), "--out", str(out)]
    result = run(*command, "--epochs", "1", *sets)
    assert result.exit_code == 0, result.output
    assert {"best.safetensors", "last.safetensors", "metrics.jsonl", "result.json", "config.json"} <= {
        path.name for path in out.iterdir()
    }
    predictions, report = tmp_path / "p.jsonl", tmp_path / "r.json"
    result = run(
        "evaluate", "--model", str(out), "--data", "pairs", "--root", str(own_data), "--protocol", "paper-256@64",
        "--predictions", str(predictions), "--out", str(report),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "per image" in result.output
    assert "effective temperature" in result.output
    line = json.loads(predictions.read_text().splitlines()[0])
    assert list(line)[:9] == [
        "pair", "category", "source", "target", "source_points", "target_points", "predicted", "confidence",
        "temperature",
    ]  # fmt: skip
    scored = run("score", str(predictions), "--json")
    evaluated = json.loads(report.read_text())
    for key in ("per_image", "per_point", "per_category", "temperature", "protocol", "threshold"):
        assert json.loads(scored.stdout)[key] == evaluated[key]


def test_presets_and_keys_are_listed() -> None:
    output = run("train", "--list").output
    assert "ibot-vitb16-full" in output
    assert "checkpoint_minutes" in output


def test_a_misspelt_key_is_refused_with_the_nearest(tmp_path: Path) -> None:
    result = run("train", "--out", str(tmp_path), "--set", "epoch=3")
    assert isinstance(result.exception, ConfigError)
    assert "did you mean 'epochs'" in str(result.exception)


def test_a_stranger_trains_on_own_keypoints_with_the_defaults(coco_root: Path, tmp_path: Path, monkeypatch) -> None:
    for variable in ("SIMSC_HOME", "SIMSC_SHARED"):
        monkeypatch.setenv(variable, str(tmp_path / "empty"))

    def unreachable(*_: object, **__: object) -> None:
        raise DownloadError("no network")

    monkeypatch.setattr("simsc.models.weights.download", unreachable)
    out = tmp_path / "run"
    data = ["--data", f"coco:{coco_root / 'train.json'}", "--set", "image_size=64"]
    result = run("train", *data, "--out", str(out), "--epochs", "1")
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "The run starts from the packaged model simsc-resnet50" in words
    assert "4 of 18 objects, drawn with seed 0, are held out for validation" in words
    assert len(json.loads((out / "run.json").read_text())["notes"]) == 2
    config = json.loads((out / "config.json").read_text())
    assert config["start"] == "simsc-resnet50" or "simsc-resnet50" in config["weights"]  # all of it, or its backbone
