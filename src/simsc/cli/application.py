"""The application that every command belongs to; its help says what the source says, and ends with examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup

Function = TypeVar("Function", bound=Callable[..., Any])


class PlainHelp(TyperGroup):
    """Commands whose help texts hold no markup: brackets, angles and asterisks are printed as they are."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        _make_plain(self)


def _make_plain(command: Any) -> None:
    command.help, command.epilog = _plain(command.help), _plain(command.epilog)
    for parameter in command.params:
        parameter.help = _plain(getattr(parameter, "help", None))
    for inner in getattr(command, "commands", {}).values():
        _make_plain(inner)


def _plain(text: str | None) -> str | None:
    """Each paragraph in one line, without anything that Rich would take for markup."""
    from rich.markup import escape

    if text is None:
        return None
    return "\n\n".join(escape(" ".join(part.split())) for part in inspect.cleandoc(text).split("\n\n"))


app = typer.Typer(
    name="simsc",
    help="Semantic correspondence with temperature learning: train, evaluate, match, transfer, warp.",
    cls=PlainHelp,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(*lines: str, name: str | None = None, group: typer.Typer = app) -> Callable[[Function], Function]:
    """Decorator: a command whose help ends with ``lines``, commands that run as they stand."""
    return group.command(name, epilog="\n\n".join(["Examples:", *lines]))
