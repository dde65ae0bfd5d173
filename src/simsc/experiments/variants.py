"""The configurations that the experiments compare, as changes to one base configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsc.errors import ConfigError, unknown_name
from simsc.models.card import Card, packaged_models, same_backbone
from simsc.models.specs import find_backbone
from simsc.models.trainable import paper_rates
from simsc.models.weights import find_weights
from simsc.training.config import Config
from simsc.training.presets import load_preset
from simsc.training.run_folder import EXECUTION_KEYS

UNESSENTIAL_KEYS = EXECUTION_KEYS - {"patience"}
"""Keys that do not decide which model a training of so many epochs gives; patience does."""
BASELINE_BETA_EVAL = 0.02
"""Evaluation temperature of models that have not learned one; the supplement's choice."""
QUICK: dict[str, Any] = {
    "image_size": 128,
    "epochs": 1,
    "trainable": "last-block",
    # An epoch of scenes is a thousandth of the paper's steps: the temperature must arrive sooner.
    "temperature_rate": 3e-3,
    "cache": "disk",  # shared by all runs
    "log_every": 5,
    "checkpoint_minutes": 0,
}
_CHANGES: dict[str, dict[str, Any]] = {
    "mlp": {"temperature": "mlp"},
    "single": {"temperature": "single", "temperature_rate": 5e-3},
    "beta1": {"temperature": "fixed:1", "beta_eval": BASELINE_BETA_EVAL},
    "no-l2norm": {"temperature": "fixed:1", "normalize": False, "rate": 2e-5},  # the paper's; at 1e-4 it collapses
}
TITLES = {
    "pre-trained": "pre-trained",
    "mlp": "SimSC (MLP)",
    "single": "SimSC (single parameter)",
    "beta1": "β_trn = 1 (WithL2Norm)",
    "no-l2norm": "NoL2Norm (β_trn = 1)",
}


def base_config(preset: str, data: str, quick: bool, changes: Mapping[str, Any], backbone: str | None = None) -> Config:
    """The configuration that all variants change: the preset, the quick form, then the user's changes."""
    if "seed" in changes:
        seed = changes["seed"]
        raise ConfigError(f"--set seed={seed}: experiments take their seeds from --seeds; give --seeds {seed} instead")
    config = load_preset(preset, "scenes" if quick else data)
    if backbone is not None:
        config = config.updated({"backbone": backbone})
    if quick:
        config = config.updated({**QUICK, "weights": quick_weights(config.backbone)})
    return config.updated(changes)


def quick_weights(backbone: str) -> str:
    """The packaged model if it has this backbone, else its own weights if they are here, else random ones."""
    for packaged in packaged_models().values():
        if same_backbone(Card.read(packaged).design.backbone, backbone):
            return str(packaged)
    return "default" if find_weights(find_backbone(backbone)) else "random"


def variant(base: Config, name: str) -> Config:
    """The base configuration with another temperature: ``mlp``, ``single``, ``beta1``, ``no-l2norm``, ``fixed:<t>``.

    >>> variant(Config(), "no-l2norm").normalize
    False
    """
    if name.startswith("fixed:"):
        return base.updated({"temperature": name})
    if name not in _CHANGES:
        raise ConfigError(unknown_name("variant", name, [*_CHANGES, "fixed:<t>"]))
    changes = dict(_CHANGES[name])
    # Rates are those beside the paper's; a base that learns faster or slower (a quick one, say) keeps their relation.
    usual = paper_rates(base.trainable, base.temperature)
    for key, rate, part in (
        ("rate", base.rates.backbone, "backbone"),
        ("temperature_rate", base.rates.temperature, "temperature"),
    ):
        if key in changes:
            changes[key] *= rate / usual[part]
    return base.updated(changes)


def title(name: str) -> str:
    """How a variant is called in tables.

    >>> title("fixed:0.03")
    'β = 0.03, fixed'
    """
    return f"β = {name.removeprefix('fixed:')}, fixed" if name.startswith("fixed:") else TITLES[name]


def train_command(config: Config, preset: str = "resnet50") -> str:
    """The command that trains a configuration, by its difference to a preset.

    >>> train_command(variant(load_preset("resnet50", "pfpascal"), "single").updated({"epochs": 3}))
    'simsc train --preset resnet50 --data pfpascal --epochs 3 --set temperature=single --set temperature_rate=0.005'
    """
    usual = load_preset(preset, config.data).to_dict()
    changed = {
        key: value for key, value in config.to_dict().items() if value != usual[key] and key not in UNESSENTIAL_KEYS
    }
    if "weights" in changed:  # without the folder, which is another one on each machine
        changed["weights"] = str(changed["weights"]).rpartition("/")[2]
    settings = "".join(f" --set {key}={value}" for key, value in changed.items())
    return f"simsc train --preset {preset} --data {config.data} --epochs {config.epochs}{settings}"
