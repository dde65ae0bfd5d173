"""``simsc transfer`` end to end."""

from __future__ import annotations

import copy
import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from simsc.cli import app
from simsc.models.trained import Trained


@pytest.fixture
def scene(tmp_path, monkeypatch, color_model, mosaic):
    monkeypatch.setattr(Trained, "open", lambda name: Trained.of(copy.deepcopy(color_model)))
    for name in ("source.png", "target.png"):
        Image.fromarray(mosaic()).save(tmp_path / name)
    (tmp_path / "source.json").write_text('{"keypoints": {"nose": [7.5, 7.5]}}')
    return tmp_path


def run(scene, *targets: str):
    arguments = ["--annotations", "source.json", "--out", "out.json", "--json"]
    paths = [str(scene / item) if item.endswith(".json") else item for item in arguments]
    return CliRunner().invoke(
        app, ["transfer", str(scene / "source.png"), *(str(scene / target) for target in targets), *paths]
    )


def test_labels_are_written_and_counted(scene):
    result = run(scene, "target.png")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["done"] == 1
    annotation = json.loads((scene / "out.json").read_text())["annotations"][0]
    assert annotation["keypoints"] == [7.5, 7.5, 1]  # a model without a calibration is never sure


@pytest.mark.parametrize(("form", "told"), [("coco", True), ("cvat", False)])
def test_the_command_that_shows_the_unsure_ones_is_told_where_it_can(scene, form, told):
    out = scene / "labels.out"
    arguments = ["transfer", scene / "source.png", scene / "target.png", "--out", out, "--format", form]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert (f"simsc review {out}" in result.stdout.replace("\n", " ")) is told


def test_a_failure_gives_exit_code_1_and_its_reason(scene):
    result = run(scene, "target.png", "absent.png")
    assert result.exit_code == 1
    assert "no such image" in json.loads(result.stdout)["failed"][str(scene / "absent.png")]
