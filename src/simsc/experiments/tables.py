"""Results as tables: what is measured on, rows of ours and of the paper, and the files they are written to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from simsc.data.locate import find_root
from simsc.data.sources import dataset_info
from simsc.errors import DataError
from simsc.evaluation.pck import ALPHAS
from simsc.files import write_json, write_text

OURS, PAPER = "ours", "paper"
CLEAN = "clean"
_PAPER_TITLES = {
    "pfpascal": "PF-Pascal",
    "pfwillow": "PF-Willow",
    "spair_transfer": "SPair (T)",
    "spair_finetuned": "SPair (F)",
}
ABSENT = "\N{EN DASH}"
ALPHA_HEADING = " / ".join(f"{alpha:g}" for alpha in ALPHAS)
BACKBONE_COLUMNS = "table2_backbones_alpha_0.1"


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        name: what was measured.
        cells: text by column.
        by: ``ours``, or ``paper`` for a figure that was printed there.
        seed, epochs, protocol: how it was measured; None where it does not apply.
        command: what repeats it on the command line.
        values: the figures behind the cells, for ``results.json``.
    """

    name: str
    cells: Mapping[str, str]
    by: str = OURS
    seed: int | None = None
    epochs: int | None = None
    protocol: str | None = None
    command: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment.

    Attributes:
        columns: headings of the cells, in order.
        rows: ours first, then the paper's.
        figures: files that were written.
        notes: what a reader must know, one sentence each.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    figures: Sequence[Path] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Target:
    """A test split.

    Attributes:
        data: its name in the registry.
        title: heading of its column.
    """

    data: str
    title: str
    split: str = "test"

    @property
    def columns(self) -> list[str]:
        """Its heading, and that of its clean subset where its official split leaks."""
        return [self.title, f"{self.title} clean"] if CLEAN in dataset_info(self.data).splits else [self.title]


def column_of_paper(data: str) -> str:
    """The heading of one of the paper's data sets.

    >>> column_of_paper("spair_transfer")
    'SPair (T)'
    """
    return _PAPER_TITLES[data]


def targets_for(trained_on: str) -> list[Target]:
    """What the paper measures for a model trained on a data set: its own test split, and the transfers."""
    if trained_on == "pfpascal":
        return [
            Target("pfpascal", _PAPER_TITLES["pfpascal"]),
            Target("pfwillow", _PAPER_TITLES["pfwillow"]),
            Target("spair", _PAPER_TITLES["spair_transfer"]),
        ]
    if trained_on == "spair":
        return [Target("spair", _PAPER_TITLES["spair_finetuned"])]
    return [Target(trained_on, dataset_info(trained_on).title)]


def available(targets: Sequence[Target], root: Path | None) -> tuple[list[Target], list[str]]:
    """The targets whose data are on this machine, and a remark for each that is left out."""
    found, notes = [], []
    for target in targets:
        info = dataset_info(target.data)
        try:
            if info.markers:
                find_root(info, root)
            found.append(target)
        except DataError as error:
            notes.append(f"{target.title} is left out: {error}.")
    return found, notes


def pck_cell(values: Mapping[str, float | None]) -> str:
    """PCK at all thresholds in one cell; ``values`` are by alpha, as text.

    >>> pck_cell({"0.05": 84.4, "0.1": 92.3, "0.15": None})
    '– / 84.4 / 92.3 / –'
    """
    found = [values.get(f"{alpha:g}") for alpha in ALPHAS]
    return " / ".join(ABSENT if value is None else f"{value:.1f}" for value in found)


def number(value: float | None, digits: int = 1) -> str:
    """A figure, or the sign for none.

    >>> number(92.345), number(None)
    ('92.3', '–')
    """
    return ABSENT if value is None else f"{value:.{digits}f}"


def markdown_table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Rows as a Markdown table; says of each who measured it and how.

    >>> print(markdown_table(["PCK"], [Row("SimSC", {"PCK": "90.0"}, seed=0, epochs=3, protocol="paper-256")]))
    | model | by | seed | epochs | protocol | PCK |
    |---|---|---|---|---|---|
    | SimSC | ours | 0 | 3 | paper-256 | 90.0 |
    """
    heading = ["model", "by", "seed", "epochs", "protocol", *columns]
    lines = [_line(heading), "|" + "---|" * len(heading)]
    for row in rows:
        facts = [row.name, row.by, *(_text(fact) for fact in (row.seed, row.epochs, row.protocol))]
        lines.append(_line([*facts, *(row.cells.get(column, ABSENT) for column in columns)]))
    return "\n".join(lines)


def section(record: Mapping[str, Any], level: str = "#", folder: str = "") -> str:
    """An experiment's record (its ``results.json``) as Markdown: table, figures, remarks and commands."""
    rows = [Row(**row) for row in record["rows"]]
    parts = [f"{level} {record['experiment']}: {record['title']}", markdown_table(record["columns"], rows)]
    parts += [f"![{record['experiment']}]({folder}{name})" for name in record["figures"] if name.endswith(".png")]
    if record["notes"]:
        parts.append("\n".join(f"- {note}" for note in record["notes"]))
    commands = dict.fromkeys(f"- {row.name}: `{row.command}`" for row in rows if row.command)
    if commands:
        parts.append("Trainings:\n\n" + "\n".join(commands))
    return "\n\n".join(parts) + "\n"


def write_outcome(outcome: Outcome, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write ``results.json`` and ``table.md`` of an experiment; ``facts`` are its name, title and settings."""
    record = {
        **facts,
        "columns": list(outcome.columns),
        "rows": [vars(row) for row in outcome.rows],
        "figures": [os.path.relpath(path, folder) for path in outcome.figures],
        "notes": list(outcome.notes),
    }
    record = json.loads(json.dumps(record))
    write_json(folder / "results.json", record)
    write_text(folder / "table.md", section(record))


def write_report(out: Path) -> Path:
    """All experiments below ``out`` as one Markdown file, ``report.md``."""
    records = [(path.parent, json.loads(path.read_text(encoding="utf-8"))) for path in out.glob("*/results.json")]
    records.sort(key=lambda item: item[1].get("position", 0))
    sections = [section(record, "##", f"{folder.name}/") for folder, record in records]
    write_text(out / "report.md", "\n".join(["# Experiments\n", *sections]))
    return out / "report.md"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _text(fact: object) -> str:
    return ABSENT if fact is None else str(fact)


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
        values = {data: {"0.1": value} for data, value in zip(data_sets, entries[name], strict=True)}
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
    values = {
        data: dict(zip((f"{alpha:g}" for alpha in alphas[data]), entry[data], strict=True))
        for data in alphas
        if data in entry
    }
    return _row(name, values)


def _row(name: str, values: Mapping[str, Mapping[str, float | None]]) -> Row:
    return paper_row(name, {column_of_paper(data): pck_cell(part) for data, part in values.items()}, values)
