from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from simsc.cli import app
from simsc.errors import ConfigError
from simsc.models.checkpoints import build_model, load_model, read_description, save_model
from simsc.models.soup import average_models

DESCRIPTION = {"backbone": "resnet50.v1_in1k", "temperature": "single", "trainable": "last-block", "beta_eval": 1.0}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    for seed in (0, 1):
        model = build_model(DESCRIPTION, weights="random", seed=seed)
        save_model(model, folder / f"{seed}.safetensors", {**DESCRIPTION, "best": {"pck": 50}})
    return [folder / "0.safetensors", folder / "1.safetensors"]


def test_is_the_weighted_mean_of_the_networks_with_the_first_temperature(files: list[Path]) -> None:
    model, description = average_models(files, [3, 1])
    first, second = (load_model(file).state_dict() for file in files)
    for name, value in model.state_dict().items():
        mixed = value.is_floating_point() and name.startswith("backbone.")
        expected = 0.75 * first[name] + 0.25 * second[name] if mixed else first[name]
        torch.testing.assert_close(value, expected, msg=name)
    assert description == {**DESCRIPTION, "averaged": 2}


def test_one_model_is_its_own_mean(files: list[Path]) -> None:
    model, _ = average_models(files[:1])
    expected = load_model(files[0]).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())


def test_other_networks_and_impossible_shares_are_refused(files: list[Path], tmp_path: Path) -> None:
    other = {**DESCRIPTION, "temperature": "fixed:1"}
    save_model(build_model(other, weights="random"), tmp_path / "other.safetensors", other)
    with pytest.raises(ConfigError, match=r"other.safetensors has temperature = fixed:1, but .*same network"):
        average_models([files[0], tmp_path / "other.safetensors"])
    for shares in ([1.0], [1.0, 0.0], [1.0, float("nan")]):
        with pytest.raises(ConfigError, match="one share above 0 per model"):
            average_models(files, shares)


def test_the_command_writes_a_model(files: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "mean.safetensors"
    done = CliRunner().invoke(app, ["models", "average", *map(str, files), "--out", str(out), "--half"])
    assert done.exit_code == 0, done.output
    assert read_description(out)["averaged"] == 2
    wrong = CliRunner().invoke(app, ["models", "average", str(files[0]), "--out", str(out), "--shares", "one"])
    assert isinstance(wrong.exception, ConfigError)
