"""The command line. Modules here import heavy packages inside functions, so that help answers at once."""

from __future__ import annotations

import sys

import typer

from simsc.cli import bench, data, demo, evaluate, experiment, export, match, models, serve, train, transfer, warp
from simsc.cli.memory import keep_freed_memory
from simsc.errors import SimscError

app = typer.Typer(
    name="simsc",
    help="Semantic correspondence with temperature learning: train, evaluate, match, transfer, warp.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.add_typer(models.app, name="models")
demo.register(app)
train.register(app)
evaluate.register(app)
bench.register(app)
experiment.register(app)
match.register(app)
export.register(app)
transfer.register(app)
warp.register(app)
serve.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from simsc._version import __version__

        typer.echo(f"simsc {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Semantic correspondence with temperature learning."""


def main() -> None:
    """Entry point: errors meant for the user become one sentence and exit code 2."""
    keep_freed_memory()
    try:
        app()
    except SimscError as error:
        typer.secho(f"simsc: {error}", fg=typer.colors.RED, err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.secho("simsc: interrupted", err=True)
        sys.exit(130)
