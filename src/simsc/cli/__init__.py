"""The command line. Modules here import heavy packages inside functions, so that help answers at once."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from types import FrameType

import typer

from simsc.cli import bulk, data, evaluate, experiment, label, match, models, serve, train
from simsc.cli.application import app
from simsc.errors import SimscError, explain

# Importing a module adds its commands.
__all__ = ["app", "bulk", "data", "evaluate", "experiment", "label", "main", "match", "models", "serve", "train"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt
_KEPT_BYTES = 1 << 30
_MAPPED_FROM_BYTES = 32 << 20  # blocks of this size are mapped and unmapped each time; glibc refuses a larger value


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


def keep_freed_memory() -> bool:
    """Have glibc keep freed memory instead of handing it back after every layer; True where that was possible.

    A forward frees and asks for the same megabytes again and again. Returned to the kernel they come back as pages that
    have to be cleared first, which was 14% of a match. Only the command line does this, to its own process: a library
    leaves the allocator alone. Whoever sets ``MALLOC_...`` variables has decided already.
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES) and mallopt(_TRIM_THRESHOLD, _KEPT_BYTES))


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
