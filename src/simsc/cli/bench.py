"""``simsc bench``."""

from __future__ import annotations

import json
import os

import typer

from simsc.cli.application import command


@command("simsc bench queries dense --quick")
def bench(
    names: list[str] | None = typer.Argument(None, help="queries, dense, match, training, evaluation; default: all."),
    quick: bool = typer.Option(False, help="Small sizes, a few seconds: shows that it runs; targets do not apply."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Measure speed and memory as ratios: alternating runs, medians."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # else the profiler reports every start and stop
    from simsc.bench import describe, environment, run_cases

    ratios, where = list(run_cases(names or (), quick)), environment()
    if as_json:
        typer.echo(json.dumps({"environment": where, "ratios": [ratio.to_dict() for ratio in ratios]}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("benchmark", title="Quick: sizes too small for the targets" if quick else None, title_justify="left")
    for column in ("measured", "target"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("from")
    for ratio in ratios:
        sign = "≥" if ratio.at_least else "≤"
        verdict = "[green]pass[/green]" if ratio.passed else "[red]fail[/red]"
        row = (f"{ratio.value:.3g} {ratio.unit}", f"{sign} {ratio.target:g} {ratio.unit}")
        table.add_row(ratio.name, *row, "" if quick else verdict, ratio.detail)
    console = Console()
    console.print(table)
    console.print(describe(where), style="dim")
