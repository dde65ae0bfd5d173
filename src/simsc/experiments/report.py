"""What an experiment hands back - rows of a table, figures and remarks - and how it is written: Markdown and JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simsc.evaluation.pck import ALPHAS
from simsc.files import write_json, write_text
from simsc.reading import read_json

OURS, PAPER = "ours", "paper"
ABSENT = "\N{EN DASH}"
ALPHA_HEADING = " / ".join(f"{alpha:g}" for alpha in ALPHAS)


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


def pck_cell(values: Mapping[float, float | None]) -> str:
    """PCK at all thresholds in one cell; ``values`` are by alpha.

    >>> pck_cell({0.05: 84.4, 0.1: 92.3, 0.15: None})
    '– / 84.4 / 92.3 / –'
    """
    found = [values.get(alpha) for alpha in ALPHAS]
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
    records = [(path.parent, read_json(path, finite=False)) for path in out.glob("*/results.json")]
    records.sort(key=lambda item: item[1].get("position", 0))
    sections = [section(record, "##", f"{folder.name}/") for folder, record in records]
    write_text(out / "report.md", "\n".join(["# Experiments\n", *sections]))
    return out / "report.md"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _text(fact: object) -> str:
    return ABSENT if fact is None else str(fact)
