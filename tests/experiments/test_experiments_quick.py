"""Every experiment from the command line, in a form small enough for the suite."""

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import simsc.scenes
from simsc.cli import app
from simsc.experiments import EXPERIMENTS, comparisons, sweeps
from simsc.training.trainer import Trainer

TINY = ("image_size=64", "max_pairs=8", "weights=random", "cache=memory", "log_every=1")


def run(name: str, out: Path) -> str:
    arguments = ["experiment", name, "--quick", "--epochs", "1", "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, *(part for item in TINY for part in ("--set", item))])
    if result.exception:
        raise result.exception
    return result.stdout


@pytest.mark.slow
def test_all_experiments_run_once_and_then_from_what_they_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(simsc.scenes.load_pairs, pairs_per_category=2, images_per_category=4, size=64)
    monkeypatch.setattr("simsc.scenes.dataset.load_pairs", few)
    monkeypatch.setenv("SIMSC_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sweeps, "EVAL_TEMPERATURES", (0.02, 0.1))
    monkeypatch.setattr(sweeps, "TRAIN_TEMPERATURES", (0.004, 0.03))
    monkeypatch.setattr(sweeps, "RATE_FACTORS", (1.0, 1000.0))
    monkeypatch.setattr(comparisons, "HEAD_TITLES", {"ncnet": "NCNet"})
    run("all", tmp_path / "out")
    for name in EXPERIMENTS:
        folder = tmp_path / "out" / name
        record = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        assert any(row["by"] == "ours" for row in record["rows"]), name
        assert "nan" not in json.dumps(record["rows"]).lower(), name
        endings = {Path(figure).suffix for figure in record["figures"]}
        assert endings == {".png", ".svg"}, name
        assert all((folder / figure).stat().st_size for figure in record["figures"]), name
    assert (tmp_path / "out" / "report.md").read_text(encoding="utf-8").count("## ") == len(EXPERIMENTS)

    def no_training(*_: object, **__: object) -> None:
        raise AssertionError("trained or evaluated twice")

    monkeypatch.setattr(Trainer, "__init__", no_training)
    monkeypatch.setattr("simsc.experiments.measurements.evaluate_model", no_training)
    table = (tmp_path / "out" / "eval-temperature" / "table.md").read_text(encoding="utf-8")
    assert table in run("eval-temperature", tmp_path / "out")


def test_the_list_names_every_experiment() -> None:
    result = CliRunner().invoke(app, ["experiment", "list"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert all(name in result.stdout for name in EXPERIMENTS)
