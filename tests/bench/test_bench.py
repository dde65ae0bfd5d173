from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from simsc.bench.cases import run_cases
from simsc.bench.ratios import Ratio, alternate, extra_bytes
from simsc.cli import app
from simsc.errors import ConfigError


def test_memory_counts_what_is_alive_at_once() -> None:
    def action() -> None:
        first = torch.zeros(1 << 18)  # 1 MB
        second = first + 1
        del first
        third = second + 1
        del second, third

    assert extra_bytes(action) == pytest.approx(2 << 20, abs=1 << 10)  # and a few numbers


def test_actions_take_turns() -> None:
    calls: list[str] = []
    alternate({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=2)
    assert calls == ["a", "b", "a", "b", "a", "b"]


def test_a_ratio_passes_on_its_own_side_of_the_target() -> None:
    assert Ratio("faster", 12, 10, at_least=True).passed
    assert not Ratio("slower", 1.2, 1.15, at_least=False).passed


def test_unknown_benchmarks_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'dense'"):
        list(run_cases(["dens"]))


def test_quick_mode_reports_every_ratio() -> None:
    result = CliRunner().invoke(app, ["bench", "--quick", "--json", "queries", "dense", "match", "start", "training"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["environment"]["torch"] == torch.__version__
    assert report["environment"]["threads"] == torch.get_num_threads()
    ratios = report["ratios"]
    assert len(ratios) == 15
    assert all(line["value"] >= 0 and line["target"] > 0 for line in ratios)
    assert ratios[-1]["passed"]  # equal gradients do not depend on the machine


def test_the_table_names_each_benchmark() -> None:
    result = CliRunner().invoke(app, ["bench", "--quick", "queries"])
    assert "20 queries" in result.stdout
    assert f"PyTorch {torch.__version__}" in result.stdout.replace("\n", " ")
