from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simsc.cli.models import app
from simsc.errors import ConfigError, WeightsError
from simsc.models import DEFAULT, QUICK
from simsc.models.card import Card, packaged_models
from simsc.models.heads import HEADS
from simsc.models.specs import find_backbone, list_backbones
from simsc.models.trained import Trained
from simsc.models.weights import weights_path

run = CliRunner().invoke


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMSC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SIMSC_SHARED", str(tmp_path / "shared"))


def put_file(name: str) -> Path:
    path = weights_path(find_backbone(name))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"weights")
    return path


def test_list_shows_all_and_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    text = run(app, ["list"]).output
    assert all(name in text for name in list_backbones())
    filtered = run(app, ["list", "*ibot*"]).output
    assert "vit_base_patch16.ibot" in filtered
    assert "resnet" not in filtered


def test_the_list_fits_a_terminal_of_80_columns_with_all_names_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run(app, ["list"]).output
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert all(name in text for name in (*list_backbones(), *packaged_models()))


def test_list_without_a_match_says_so() -> None:
    result = run(app, ["list", "nothing*"])
    assert result.exit_code == 0
    assert "no model or backbone matches 'nothing*'" in result.output


@pytest.mark.skipif(DEFAULT not in packaged_models(), reason="the packaged model is not in this installation")
def test_packaged_models_are_listed_and_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert DEFAULT in run(app, ["list"]).output
    filtered = run(app, ["list", "simsc*"]).output
    assert DEFAULT in filtered
    assert QUICK in filtered
    assert "ibot" not in filtered
    assert json.loads(run(app, ["list", "--json"]).output)[0]["name"] == DEFAULT
    facts = json.loads(run(app, ["info", DEFAULT, "--json"]).output)
    assert (facts["temperature"], facts["image_size"]) == ("mlp", 364)
    assert facts["sources"] == "pfpascal,spair,voc"
    assert "pfpascal" in run(app, ["info", DEFAULT]).output
    assert "--heads needs a backbone" in str(run(app, ["info", DEFAULT, "--heads"]).exception)


def test_list_as_json_tells_what_is_here() -> None:
    path = put_file("ibot-vitb16")
    facts = {entry["name"]: entry for entry in json.loads(run(app, ["list", "--json"]).output)}
    assert facts["vit_base_patch16.ibot"]["weights"] == str(path)
    assert facts["resnet50.tv_in1k"]["weights"] is None


def test_info_has_every_fact() -> None:
    facts = json.loads(run(app, ["info", "resnet50-v1", "--json"]).output)
    assert facts["name"] == "resnet50.v1_in1k"
    assert (facts["stride"], facts["channels"], facts["input_size"], facts["licence"]) == (16, 1024, 256, "MIT")
    assert facts["parameters"] == 8_543_296  # the network up to its third stage
    assert facts["source"] == "no public address"
    assert facts["weights_go_to"] == str(weights_path(find_backbone("resnet50-v1")))
    assert "8,543,296" in run(app, ["info", "resnet50-v1"]).output


def test_fetch_prints_the_path_of_a_file_that_is_here() -> None:
    path = put_file("ibot-vitb16")
    assert run(app, ["fetch", "ibot-vitb16"]).output.strip() == str(path)


def test_errors_are_left_to_the_command_line() -> None:
    assert isinstance(run(app, ["info", "resnet5O"]).exception, ConfigError)
    assert isinstance(run(app, ["fetch", "dinov3-small"]).exception, WeightsError)


def test_list_does_not_import_torch() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from simsc.cli.models import app;"
        "result = CliRunner().invoke(app, ['list']); print(result.exit_code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0 False"


def test_info_measures_the_heads() -> None:
    heads = json.loads(run(app, ["info", "resnet50-v1", "--heads", "--json"]).output)["heads"]
    assert set(heads) == set(HEADS) - {"none"}
    assert heads["hpf"]["parameters"] == 0
    assert heads["sfnet"]["parameters"] > heads["ncnet"]["parameters"] > 0
    assert all(cost["flops"] > 0 and cost["memory_bytes"] > 0 for cost in heads.values())


def test_info_prints_what_the_guide_says_about_the_heads() -> None:
    text = run(app, ["info", "resnet50-v1", "--heads"]).output
    assert "one pair of 256 x 256 images" in text
    guide = (Path(__file__).parents[2] / "docs" / "heads.md").read_text(encoding="utf-8").split("## Cost")[1]
    printed = [line.split() for line in text.splitlines()]
    for head in ("sfnet", "ncnet", "cats", "hpf", "scot"):
        row = next(line for line in guide.splitlines() if line.startswith(f"| `{head}` |"))
        cells = [cell.strip("` ").removesuffix(" MB") for cell in row.strip("|").split("|")]
        assert cells in printed, (cells, text)


def test_a_model_can_be_written_to_be_used_in_another_way(tmp_path: Path) -> None:
    out = tmp_path / "other.safetensors"
    options = ["--size", "288", "--localizer", "window-soft-argmax", "--coherent"]
    done = run(app, ["average", QUICK, "--out", str(out), "--half", *options])
    assert done.exit_code == 0, done.output
    before, after = Card.read(packaged_models()[QUICK]), Card.read(out)
    assert (after.image_size, after.localizer, after.coherent) == (288, "window-soft-argmax", True)
    assert before.calibration is not None
    assert after.calibration is None  # it was fitted to other signals
    assert Trained.open(out).network.head.coherent
    assert run(app, ["average", QUICK, "--out", str(out)]).exit_code == 0
    assert Card.read(out).calibration == before.calibration
    refused = run(app, ["average", QUICK, "--out", str(out), "--localizer", "agrmax"])
    assert isinstance(refused.exception, ConfigError)
    assert "argmax" in str(refused.exception)
