"""``simsc data``: list, describe, download and verify data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simsc.cli.application import app as application
from simsc.cli.application import command

if TYPE_CHECKING:
    from simsc.data.verify import Report

app = typer.Typer(help="Data sets: what exists, how to get it, whether it is complete.", no_args_is_help=True)
application.add_typer(app, name="data")

Name = Annotated[str, typer.Argument(help="Name of the data set, see `simsc data list`.")]
Root = Annotated[
    Path | None, typer.Option("--root", help="Its folder, or the folder that holds it; own data: the file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@command("simsc data list", name="list", group=app)
def list_datasets(as_json: AsJson = False) -> None:
    """List all data sets and whether they are found on this machine."""
    from simsc.data.catalog import DATASETS

    rows: list[dict[str, Any]] = [
        {
            "name": info.name,
            "title": info.title,
            "splits": list(info.splits),
            "pck": info.threshold,
            "found": _place(info.name),
            "terms": info.licence,
        }
        for info in (dataset.info for _, dataset in DATASETS.items())
    ]
    if as_json:
        return _print_json(rows)
    table = _table("", "name", "title", "splits", "PCK", "found at")
    for row in rows:
        table.add_row(row["name"], row["title"], ", ".join(row["splits"]), row["pck"], row["found"] or "-")
    return _print(table)


@command("simsc data info scenes", group=app)
def info(name: Name, root: Root = None, as_json: AsJson = False) -> None:
    """Count pairs, points and images of every split, and pairs per category."""
    from simsc.data.catalog import dataset_info
    from simsc.data.verify import describe

    report = describe(name, root)
    entry = dataset_info(name)
    facts = {"title": entry.title, "pck": entry.threshold, "terms": entry.licence, "citation": entry.citation}
    if as_json:
        return _print_json({**facts, **report.as_dict()})
    _print_report(report, entry.title)
    _print_categories(report)
    for label, text in facts.items():
        if text and label != "title":
            _print(text, label)
    return None


@command("simsc data download pfpascal --root data/pf-pascal", group=app)
def download(
    name: Name,
    root: Root = None,
    keep_archives: Annotated[bool, typer.Option("--keep-archives", help="Keep the archives.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download the official files, unpack them, and count what arrived. Continues after an interruption."""
    from simsc.data.catalog import dataset_info
    from simsc.data.download import download_dataset
    from simsc.data.verify import describe

    say = (lambda sentence: typer.echo(sentence, err=True)) if as_json else typer.echo
    files = download_dataset(name, root, keep_archives=keep_archives, say=say)
    report = describe(name, root)
    wrong = _count_problems(report, dataset_info(name).counts)
    if as_json:
        _print_json({"files": [vars(file) for file in files], "problems": wrong, **report.as_dict()})
    else:
        _print_report(report, dataset_info(name).title)
        _print_problems(wrong)
    if wrong:
        raise typer.Exit(1)


@command("simsc data verify scenes", group=app)
def verify(name: Name, root: Root = None, as_json: AsJson = False) -> None:
    """Check counts, open every image header, and list the problems; exit code 1 if there are any."""
    from simsc.data.catalog import dataset_info
    from simsc.data.verify import verify as check

    report = check(name, root)
    if as_json:
        _print_json(report.as_dict())
    else:
        _print_report(report, dataset_info(name).title)
        _print(f"{report.images:,} image files opened")
        _print_problems(report.problems)
    if report.problems:
        raise typer.Exit(1)


def _place(name: str) -> str | None:
    from simsc.data.catalog import dataset_info
    from simsc.data.locate import find_root
    from simsc.errors import DataError

    if dataset_info(name).drawn:
        return "drawn on demand"
    try:
        return str(find_root(dataset_info(name)))
    except DataError:
        return None


def _count_problems(report: Report, counts: Any) -> list[str]:
    """Splits of the official distribution that are absent or of another size."""
    from simsc.data.verify import compare_counts

    problems = [f"{split}: {reason}" for split, reason in report.absent.items() if not split.startswith("partial")]
    return problems + compare_counts(report, counts)


def _print_report(report: Report, title: str) -> None:
    table = _table(title, "split", "pairs", "points", "images", "points outside")
    for split, found in report.splits.items():
        numbers = (found.pairs, found.points, found.images, found.points_outside)
        table.add_row(split, *(f"{number:,}" for number in numbers))
    _print(table)
    for split, reason in report.absent.items():
        _print(reason, f"{split} is absent", "yellow")


def _print_categories(report: Report) -> None:
    names = sorted({name for found in report.splits.values() for name in found.categories})
    table = _table("Pairs per category", "category", *report.splits)
    for name in names:
        counts = [found.categories.get(name, 0) for found in report.splits.values()]
        table.add_row(name, *(f"{count:,}" for count in counts))
    _print(table)


def _print_problems(problems: list[str]) -> None:
    for problem in problems:
        _print(problem, "problem", "red")
    if not problems:
        _print("no problems found")


def _table(title: str, *columns: str) -> Any:
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for index, column in enumerate(columns):
        numeric = index > 0 and column not in ("title", "splits", "PCK", "found at")
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    return table


def _print(value: Any, label: str = "", style: str = "dim") -> None:
    """Print a table, or a sentence after a coloured label; brackets in sentences are not markup."""
    from rich.console import Console
    from rich.text import Text

    if isinstance(value, str):
        value = Text.assemble((f"{label}: ", style), value) if label else Text(value)
    Console(soft_wrap=isinstance(value, Text)).print(value)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
