"""Matching heads, from features to score maps, by name with options: ``none``, ``ncnet:kernel=5,channels=16-16-1``.

Importing this imports no torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simsc.errors import ConfigError, unknown_name
from simsc.registry import Registry

if TYPE_CHECKING:
    from simsc.models.backbone import Backbone
    from simsc.models.heads.base import Head

Option = int | float | str | tuple[int, ...]
HEADS: Registry[Callable[..., Head]] = Registry("head", "simsc.heads")
"""From a backbone and keyword options, each with a default, to a head."""

HEADS.lazy("none", "simsc.models.heads.plain:Plain")
HEADS.lazy("sfnet", "simsc.models.heads.sfnet:SFNet")
HEADS.lazy("ncnet", "simsc.models.heads.ncnet:NCNet")
HEADS.lazy("cats", "simsc.models.heads.cats:CATs")
HEADS.lazy("hpf", "simsc.models.heads.hpf:HPF")
HEADS.lazy("scot", "simsc.models.heads.scot:SCOT")
HEADS.lazy("upsampled", "simsc.models.heads.upsampled:Upsampled")

_MODEL_OPTIONS = ("normalize", "query")
"""Options of the model that a head may take; they are no part of its name."""


def build_head(name: str, backbone: Backbone, **options: Any) -> Head:
    """The head ``<name>[:<option>=<value>,...]``; ``options`` are the model's, for heads that take them.

    Lists of whole numbers are written with hyphens: ``cats:layers=7-10-12``.
    """
    kind, own = parse_head(name)
    taken = {key: value for key, value in options.items() if key in _parameters(kind)}
    if not options.get("normalize", True) and "normalize" not in taken:
        raise ConfigError(f"head '{name}' works on normalised features; normalize = false needs head = none")
    return HEADS[kind](backbone, **own, **taken)


def parse_head(name: str) -> tuple[str, dict[str, Option]]:
    """Kind and options of a head's name; refuses unknown ones before there is a backbone.

    >>> parse_head("cats:layers=7-10,grid=8")
    ('cats', {'layers': (7, 10), 'grid': 8})
    """
    kind, _, text = name.partition(":")
    defaults, options = head_options(kind), {}
    for item in filter(None, text.split(",")):
        key, _, value = item.partition("=")
        if key not in defaults:
            raise ConfigError(unknown_name(f"option of head '{kind}'", key, defaults))
        options[key] = _convert(kind, key, value, defaults[key])
    return kind, options


def head_options(kind: str) -> dict[str, Option]:
    """Options of a head and their defaults.

    >>> head_options("ncnet")
    {'kernel': 3, 'channels': (10, 10, 1)}
    """
    return {key: default for key, default in _parameters(kind).items() if key not in _MODEL_OPTIONS}


def _parameters(kind: str) -> dict[str, Any]:
    """Keyword arguments of a head and their defaults."""
    parameters = inspect.signature(HEADS[kind]).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def _convert(kind: str, key: str, value: str, default: Option) -> Option:
    """The text of an option as the type of its default."""
    try:
        if isinstance(default, tuple):
            return tuple(int(part) for part in value.split("-"))
        return type(default)(value)
    except ValueError:
        wanted = {int: "a whole number", float: "a number", tuple: "whole numbers joined by hyphens"}[type(default)]
        raise ConfigError(f"head '{kind}': option {key} = '{value}' is not allowed; expected {wanted}") from None
