"""The command line. Modules here import heavy packages inside functions, so that help answers at once."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import typer

from simsc.allocator import keep_freed_memory
from simsc.cli import bulk, data, evaluate, experiment, label, match, models, serve, train
from simsc.cli.application import app
from simsc.errors import SimscError, explain

# Importing a module adds its commands.
__all__ = ["app", "bulk", "data", "evaluate", "experiment", "label", "main", "match", "models", "serve", "train"]


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
    signal.signal(signal.SIGTERM, _end)
    keep_freed_memory()
    try:
        app()
    except KeyboardInterrupt:
        typer.secho("simsc: interrupted", err=True)
        sys.exit(130)
    except Exception as error:
        sentence = str(error) if isinstance(error, SimscError) else explain(error)
        if sentence is None:  # a mistake of ours, which needs its trace
            raise
        typer.secho(f"simsc: {sentence}", fg=typer.colors.RED, err=True)
        sys.exit(2)


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature is fixed
    """End on SIGTERM as on any error: what is half-written is removed on the way out."""
    sys.exit(128 + number)
