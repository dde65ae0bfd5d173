"""Errors meant for the user: one sentence that says what was wrong, where, and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SimscError(Exception):
    """Base of every error whose message is written for the user; the command line prints it without a trace."""


class DataError(SimscError):
    """A data set, annotation or image that cannot be used; names the file and the field."""


class WeightsError(SimscError):
    """Weights that are missing, damaged, or do not fit the network."""


class DownloadError(SimscError):
    """An address that cannot be reached, or a file that arrived different from what was expected."""


class ConfigError(SimscError):
    """A configuration key or value that is not allowed."""


def unknown_name(what: str, name: str, allowed: Iterable[str]) -> str:
    """Sentence for a misspelt name: the nearest valid one first, then all that is allowed.

    >>> unknown_name("localizer", "agrmax", ["argmax", "soft-argmax"])
    "unknown localizer 'agrmax'; did you mean 'argmax'? Allowed: argmax, soft-argmax"
    """
    options = list(allowed)
    near = difflib.get_close_matches(name, options, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"unknown {what} '{name}'; {hint}Allowed: {', '.join(options)}"
