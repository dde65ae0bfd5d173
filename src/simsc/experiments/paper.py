"""The figures that the paper prints, as rows beside ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from simsc.experiments.report import PAPER, Row, pck_cell

TITLES = {
    "pfpascal": "PF-Pascal",
    "pfwillow": "PF-Willow",
    "spair_transfer": "SPair (T)",
    "spair_finetuned": "SPair (F)",
}
"""Headings of the paper's data sets."""
BACKBONE_COLUMNS = "table2_backbones_alpha_0.1"


@cache
def paper_figures() -> dict[str, Any]:
    """All transcribed tables of the paper."""
    text = (resources.files("simsc.experiments") / "paper.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def pck_rows(table: str, names: Iterable[str] | None = None) -> list[Row]:
    """Rows of a table whose entries are ``{data set: [PCK at that data set's alphas]}``.

    >>> pck_rows("table3_l2_normalisation_resnet101*", ["SimSC"])[0].cells["PF-Pascal"]
    '– / 86.2 / 92.6 / 95.3'
    """
    entries = paper_figures()[table]
    return [_pck_row(name, entries[name]) for name in (names or entries)]


def backbone_rows(names: Iterable[str] | None = None) -> list[Row]:
    """Rows of the table of backbones, which has PCK@0.1 only."""
    entries = dict(paper_figures()[BACKBONE_COLUMNS])
    data_sets = entries.pop("columns")
    rows = []
    for name in names or entries:
        values = {data: {0.1: value} for data, value in zip(data_sets, entries[name], strict=True)}
        rows.append(_row(name, values))
    return rows


def paper_row(name: str, cells: Mapping[str, str], values: Mapping[str, Any] | None = None) -> Row:
    """A row of the paper with cells of its own kind."""
    return Row(f"{name} (paper)", cells, by=PAPER, values=values or {})


def paper_columns(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """``columns`` and those that only the paper's rows have."""
    return list(dict.fromkeys([*columns, *(column for row in rows for column in row.cells)]))


def _pck_row(name: str, entry: Mapping[str, Any]) -> Row:
    alphas = paper_figures()["alphas"]
    values = {data: dict(zip(alphas[data], entry[data], strict=True)) for data in alphas if data in entry}
    return _row(name, values)


def _row(name: str, values: Mapping[str, Mapping[float, float | None]]) -> Row:
    return paper_row(name, {TITLES[data]: pck_cell(part) for data, part in values.items()}, values)
