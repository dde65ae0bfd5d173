"""The figures of the packaged models that the pages print are those that were measured, digit by digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simsc.models.card import Card, packaged_models

RESULTS = Path(__file__).parents[2] / "docs" / "results"
COLUMNS = (("pfpascal", ""), ("pfpascal", "clean"), ("pfwillow", ""), ("spair", ""), ("spair", "clean"))
PAGES = ("README.md", "docs/model-card.md", "docs/results.md")


def measured(model: str, data: str, subset: str = "") -> dict[str, Any]:
    result: dict[str, Any] = json.loads((RESULTS / f"{model}-{data}.json").read_text(encoding="utf-8"))
    return result["subsets"][subset] if subset else result


def printed(score: dict[str, Any]) -> str:
    return " / ".join(f"{score['per_image'][alpha]:.1f}" for alpha in ("0.05", "0.1"))


@pytest.mark.parametrize("model", packaged_models())
@pytest.mark.parametrize("page", PAGES)
def test_the_row_of_a_packaged_model_is_what_was_measured(pages: dict[str, str], page: str, model: str) -> None:
    rows = [line for line in pages[page].splitlines() if line.startswith("|") and f"`{model}`" in line.split("|")[1]]
    wanted = [printed(measured(model, *column)) for column in COLUMNS]
    assert any(all(figure in row.replace("**", "") for figure in wanted) for row in rows), f"{page}: {wanted} in {rows}"


@pytest.mark.parametrize("model", packaged_models())
@pytest.mark.parametrize("data", sorted({data for data, _ in COLUMNS}))
def test_what_was_measured_is_the_model_as_it_is_used(model: str, data: str) -> None:
    card, result = Card.read(packaged_models()[model]), measured(model, data)
    used = (result["localizer"], result["coherent"], result["protocol"])
    assert used == (card.localizer, card.coherent, card.protocol)
    assert result.get("input_size", 256) == card.image_size


def test_the_confidence_of_the_default_model_is_what_was_measured(pages: dict[str, str]) -> None:
    report = json.loads((RESULTS / "simsc-vits-calibration.json").read_text(encoding="utf-8"))
    table = pages["docs/matching.md"]
    for name in ("ece", "auc_right", "auc_present"):
        assert f"| {report[name]:.3f}" in table, name
    assert f"| {100 * report['kept']:.1f} %" in table
