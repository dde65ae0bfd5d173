"""Options of experiments: none is ignored without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from simsc.cli import app
from simsc.errors import ConfigError
from simsc.experiments import comparisons, make_context
from simsc.experiments.variants import base_config
from simsc.training.config import parse_changes


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["experiment", *arguments])
    assert isinstance(result.exception, ConfigError), result.output
    return str(result.exception)


def test_a_seed_is_given_by_seeds(tmp_path: Path) -> None:
    assert "give --seeds 3" in refusal("main", "--quick", "--set", "seed=3", "--out", str(tmp_path))


@pytest.mark.parametrize("name", ["main", "all"])
def test_only_the_experiment_on_backbones_takes_several(name: str, tmp_path: Path) -> None:
    several = ("--backbone", "resnet50", "--backbone", "dino-vitb8")
    message = refusal(name, "--quick", *several, "--out", str(tmp_path))
    assert "one --backbone, not resnet50, dino-vitb8" in message
    assert "`backbones`" in message


@pytest.mark.parametrize(
    ("head", "temperature", "beta_eval"),
    [("sfnet", "fixed:0.02", 1.0), ("ncnet", "fixed:1", 0.02), ("cats", "fixed:0.02", 1.0)],
)
@pytest.mark.parametrize("change", ["beta_eval=0.5", "temperature=single"])
def test_a_head_as_it_came_keeps_its_temperature(
    head: str, temperature: str, beta_eval: float, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = parse_changes([change])
    base = base_config("resnet50", "pfpascal", True, changes)
    context = make_context(base, tmp_path, tmp_path, lambda *_: None, quick=True, changes=changes)
    monkeypatch.setattr(comparisons, "_head_row", lambda context, name, config, temperature: config)
    default, *learned = comparisons._head_rows(context, head)
    assert (default.temperature, default.beta_eval) == (temperature, beta_eval)
    for config in learned:
        assert f"{change.split('=')[0]}={getattr(config, change.split('=')[0])}" == change
        assert config.head == default.head == head
