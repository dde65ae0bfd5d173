"""What every experiment works with: base configuration, runs, measurements, data sets and a place for its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simsc.errors import ConfigError, DataError
from simsc.experiments.measurements import Meter, Subject, pretrained
from simsc.experiments.runs import RunStore, Train, variant
from simsc.experiments.tables import Target, available, targets_for
from simsc.models.specs import find_backbone
from simsc.training.config import Config
from simsc.training.presets import load_preset

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


@dataclass(frozen=True)
class Context:
    """See the module; ``folder`` is where the experiment writes, ``say`` tells the user what is going on."""

    base: Config
    preset: str
    seeds: tuple[int, ...]
    store: RunStore
    meter: Meter
    targets: list[Target]
    folder: Path
    quick: bool = False
    chosen_backbones: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    say: Callable[[str], None] = print

    @property
    def target(self) -> Target:
        """The test split of the data set that was trained on."""
        return self.targets[0]

    def config(self, name: str, seed: int | None = None, **changes: Any) -> Config:
        """The configuration of a variant."""
        return variant(self.base, name).updated({"seed": self.seeds[0] if seed is None else seed, **changes})

    def trained(self, config: Config) -> Subject:
        """The model of a configuration, trained if it was not yet."""
        self.say(f"run: {config.temperature}, seed {config.seed}, {config.epochs} epochs")
        return Subject(config, self.store.ensure(config, self.meter.root))

    def before_training(self, beta_eval: float) -> Subject:
        """The backbone as it was pre-trained."""
        return pretrained(self.base.updated({"beta_eval": beta_eval}), self.store.base)


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
    from simsc.models.card import Card, packaged_models, same_backbone
    from simsc.models.weights import find_weights

    for packaged in packaged_models().values():
        if same_backbone(Card.read(packaged).design.backbone, backbone):
            return str(packaged)
    return "default" if find_weights(find_backbone(backbone)) else "random"


def make_context(
    base: Config,
    out: Path,
    runs: Path,
    train: Train,
    *,
    preset: str = "resnet50",
    seeds: Sequence[int] = (0,),
    root: Path | None = None,
    quick: bool = False,
    backbones: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = print,
) -> Context:
    """A context for experiments that write below ``out``."""
    targets, notes = available(targets_for(base.data), root)
    if not targets or targets[0].data != base.data:
        raise DataError(notes[0])
    trunk = "memory" if quick else "disk" if base.cache == "disk" else "none"
    if quick:
        notes = [f"Quick form: {base.data}, {base.image_size} pixels, weights {Path(base.weights).name}.", *notes]
    return Context(
        base, preset, tuple(seeds), RunStore(runs, train), Meter(root, trunk), targets, out,
        quick, tuple(backbones), tuple(notes), changes or {}, say,
    )  # fmt: skip
