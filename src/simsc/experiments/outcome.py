"""What an experiment hands back: rows of a table, figures and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS, PAPER = "ours", "paper"


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
