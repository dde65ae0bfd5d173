"""What an experiment is, all of them by name, and what each works with: runs, measurements, data sets, a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simsc.errors import DataError
from simsc.evaluation.scoring import Score
from simsc.experiments.measurements import Meter, Subject, Target, available, pretrained, targets_for
from simsc.experiments.report import Outcome, Row, write_outcome
from simsc.experiments.runs import RunStore, Train
from simsc.experiments.variants import train_command, variant
from simsc.registry import Registry
from simsc.training.config import Config

ALL_DATA, ONE = "PF-Pascal; PF-Willow and SPair-71k if there", "PF-Pascal"


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

    def score(self, subject: Subject, temperature: float | None = None) -> Score:
        """Figures of a model on the test split of the data set that was trained on."""
        return self.meter.measure(subject, self.target, temperature=temperature).score

    def row(
        self,
        name: str,
        subject: Subject,
        cells: Mapping[str, str],
        values: Mapping[str, Any] | None = None,
        *,
        protocol: str | None = None,
        preset: str = "",
    ) -> Row:
        """A row of a table about a model, and how to train it where it was trained."""
        protocol = protocol or subject.protocol
        if not subject.trained:
            return Row(name, cells, protocol=protocol, values=values or {})
        config = subject.config
        return Row(
            subject.label(name), cells, seed=config.seed, epochs=config.epochs, protocol=protocol,
            command=train_command(config, preset or self.preset), values=values or {},
        )  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Attributes:
        title: which one of the paper.
        run: does it.
        trainings: how many runs it needs (per seed, where it says so); those of other experiments are re-used.
        data: what it measures on.
    """

    title: str
    run: Callable[[Context], Outcome]
    trainings: str
    data: str


EXPERIMENTS: Registry[Experiment] = Registry("experiment")


def experiment(
    name: str, title: str, trainings: str, data: str = ONE
) -> Callable[[Callable[[Context], Outcome]], Callable[[Context], Outcome]]:
    """Decorator: make a function an experiment of that name, see :class:`Experiment`."""

    def register(run: Callable[[Context], Outcome]) -> Callable[[Context], Outcome]:
        EXPERIMENTS.add(name, Experiment(title, run, trainings, data))
        return run

    return register


def run_experiment(name: str, context: Context) -> Outcome:
    """Run an experiment in its own folder below the context's and write its table, figures and ``results.json``."""
    chosen = EXPERIMENTS[name]
    own = replace(context, folder=context.folder / name)
    own.folder.mkdir(parents=True, exist_ok=True)
    outcome = chosen.run(own)
    facts = {
        "experiment": name,
        "title": chosen.title,
        "position": list(EXPERIMENTS).index(name),
        "quick": context.quick,
        "config": {key: value for key, value in context.base.to_dict().items() if key != "weights"},
    }
    write_outcome(outcome, own.folder, facts)
    return outcome


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


def facts(score: Score) -> dict[str, Any]:
    """The figures behind a cell, for ``results.json``."""
    values = score.to_dict()
    return {key: values[key] for key in ("pairs", "points", "per_image", "per_point", "temperature")}
