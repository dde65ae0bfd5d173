"""Presets: named configurations in YAML, one file each, that may build on another one."""

from __future__ import annotations

from importlib import resources
from typing import Any

from simsc.data.mixing import parse_sources
from simsc.errors import ConfigError, unknown_name
from simsc.reading import read_yaml
from simsc.training.config import Config


def list_presets() -> dict[str, str]:
    """Names of all presets with the sentence that describes each."""
    return {name: str(_read(name).get("about", "")) for name in _names()}


def load_preset(name: str, data: str | None = None) -> Config:
    """The configuration of a preset for a data set.

    ``fixed:<t>`` is ``resnet50`` with a constant temperature.

    >>> load_preset("resnet50", "spair").epochs
    10
    """
    base, _, argument = name.partition(":")
    if argument and base == "fixed":
        return load_preset("resnet50", data).updated({"temperature": name})
    values = _resolve(name)
    per_data = values.pop("per_data", {})
    values.pop("about", None)
    chosen = str(data or values.get("data", Config.data))
    return Config().updated({**values, "data": chosen, **_for_data(per_data, chosen)})


def _for_data(per_data: dict[str, dict[str, Any]], data: str) -> dict[str, Any]:
    """What a preset says of some data: of a single data set, or of several and of just these.

    Splits, places and weights do not matter.
    """
    names = [spec.name for spec in parse_sources(data)]
    if len(names) == 1:
        return per_data.get(names[0], {})
    return {**per_data.get("several", {}), **per_data.get(",".join(names), {})}


def _resolve(name: str) -> dict[str, Any]:
    """A preset's values on top of those of the preset it builds on."""
    values = _read(name)
    base = values.pop("base", None)
    if base is None:
        return values
    inherited = _resolve(base)
    merged = {**inherited, **values}
    if "per_data" in inherited:
        own = values.get("per_data", {})
        merged["per_data"] = {
            data: {**inherited["per_data"].get(data, {}), **own.get(data, {})}
            for data in {*inherited["per_data"], *own}
        }
    return merged


def _read(name: str) -> dict[str, Any]:
    if name not in _names():
        raise ConfigError(unknown_name("preset", name, [*_names(), "fixed:<t>"]))
    return dict(read_yaml(_folder() / f"{name}.yaml"))


def _names() -> list[str]:
    return sorted(entry.name.removesuffix(".yaml") for entry in _folder().iterdir() if entry.name.endswith(".yaml"))


def _folder() -> Any:
    return resources.files("simsc.training.presets")
