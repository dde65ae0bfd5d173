"""``simsc demo``."""

from __future__ import annotations

from pathlib import Path

import typer

from simsc.cli.application import command


@command("simsc demo --source one.png --target two.png")
def demo(
    out: Path = typer.Option(Path("demo"), help="Folder for the report and the adapted model."),
    source: Path | None = typer.Option(None, help="An image of your own ..."),
    target: Path | None = typer.Option(None, help="... and another one of the same kind of thing."),
    epochs: int = typer.Option(3, min=1, help="Epochs of the adaptation, about 20 seconds each on two cores."),
) -> None:
    """Show the main job in two minutes: match, adapt to new categories, and write an HTML report."""
    from simsc.cli.views import training_listener
    from simsc.demo import run_demo
    from simsc.errors import ConfigError

    if (source is None) != (target is None):
        raise ConfigError("give both --source and --target, or neither")
    with training_listener(out, True, False) as listener:
        report = run_demo(out, source, target, epochs, typer.echo, listener)
    typer.echo(f"Report: {report}")
