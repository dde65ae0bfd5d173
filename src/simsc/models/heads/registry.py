"""Heads by name, with options: ``ncnet``, ``ncnet:kernel=5,channels=16-16-1``, ``cats:layers=7-10``."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from simsc.errors import ConfigError, unknown_name
from simsc.models.backbone import Backbone
from simsc.models.heads.base import Head
from simsc.models.heads.cats import CATs
from simsc.models.heads.hpf import HPF
from simsc.models.heads.ncnet import NCNet
from simsc.models.heads.scot import SCOT
from simsc.models.heads.sfnet import SFNet

Option = int | float | str | tuple[int, ...]
HEADS: dict[str, Callable[..., Head]] = {"sfnet": SFNet, "ncnet": NCNet, "cats": CATs, "hpf": HPF, "scot": SCOT}


def build_head(name: str, backbone: Backbone) -> Head | None:
    """The head ``<name>[:<option>=<value>,...]``, or None for ``none``.

    Lists of whole numbers are written with hyphens: ``cats:layers=7-10-12``.
    """
    kind, options = parse_head(name)
    return None if kind == "none" else HEADS[kind](backbone, **options)


def parse_head(name: str) -> tuple[str, dict[str, Option]]:
    """Kind and options of a head's name; refuses unknown ones before there is a backbone.

    >>> parse_head("cats:layers=7-10,grid=8")
    ('cats', {'layers': (7, 10), 'grid': 8})
    """
    if name == "none":
        return name, {}
    kind, _, text = name.partition(":")
    if kind not in HEADS:
        raise ConfigError(unknown_name("head", name, ("none", *HEADS)))
    return kind, _parse(kind, text)


def head_options(kind: str) -> dict[str, Option]:
    """Options of a head and their defaults.

    >>> head_options("ncnet")
    {'kernel': 3, 'channels': (10, 10, 1)}
    """
    parameters = inspect.signature(HEADS[kind]).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def _parse(kind: str, text: str) -> dict[str, Option]:
    defaults, options = head_options(kind), {}
    for item in filter(None, text.split(",")):
        key, _, value = item.partition("=")
        if key not in defaults:
            raise ConfigError(unknown_name(f"option of head '{kind}'", key, defaults))
        options[key] = _convert(kind, key, value, defaults[key])
    return options


def _convert(kind: str, key: str, value: str, default: Option) -> Option:
    """The text of an option as the type of its default."""
    try:
        if isinstance(default, tuple):
            return tuple(int(part) for part in value.split("-"))
        return type(default)(value)
    except ValueError:
        wanted = {int: "a whole number", float: "a number", tuple: "whole numbers joined by hyphens"}[type(default)]
        raise ConfigError(f"head '{kind}': option {key} = '{value}' is not allowed; expected {wanted}") from None
