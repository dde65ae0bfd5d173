"""Heads that need no training, reached from the commands by the name of a backbone."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from simsc.cli import app
from simsc.models import trained
from simsc.models.trained import build_model

POINTS = [[10, 10], [50, 40], [30, 20]]


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pair of small images, its list as a split, and backbones with random weights."""
    monkeypatch.setattr(trained, "build_model", partial(build_model, weights=None))
    generator = np.random.default_rng(0)
    for name in ("a.png", "b.png"):
        coarse = generator.integers(0, 256, (5, 5, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((64, 48)).save(tmp_path / name)
    pair = {side: {"image": name, "points": POINTS} for side, name in (("source", "a.png"), ("target", "b.png"))}
    (tmp_path / "val.json").write_text(json.dumps([pair]))
    return tmp_path


def run(*arguments: object) -> dict:
    result = CliRunner().invoke(app, [str(argument) for argument in (*arguments, "--json")])
    if result.exception:
        raise result.exception
    return json.loads(result.stdout)


@pytest.mark.parametrize(("options", "temperature"), [((), 0.05), (("--temperature", 0.1), 0.1)])
def test_evaluate(own_data: Path, options: tuple, temperature: float) -> None:
    where = ("--data", "pairs", "--root", own_data, "--split", "val", "--protocol", "paper-256@64")
    found = run("evaluate", "--model", "resnet50+hpf", *where, *options)
    assert found["model"] == "resnet50+hpf"
    assert found["temperature"]["mean"] == pytest.approx(temperature)


def test_match(own_data: Path) -> None:
    model = "resnet50.v1_in1k+scot:layers=7-9-11"
    found = run("match", own_data / "a.png", own_data / "a.png", "--points", "30,20", "--model", model, "--size", 64)
    assert found["temperature"] == pytest.approx(0.05)


@pytest.mark.parametrize("command", ["evaluate", "match", "serve", "warp"])
def test_the_help_says_so(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "250"})
    assert "resnet50+hpf" in result.output
