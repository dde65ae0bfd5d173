"""All experiments by name: what each shows and what it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simsc.experiments import comparisons, supplement, sweeps
from simsc.experiments.context import Context
from simsc.experiments.tables import Outcome, write_outcome
from simsc.registry import Registry


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


_ALL = "PF-Pascal; PF-Willow and SPair-71k if there"
_ONE = "PF-Pascal"
_TABLE = {
    "main": Experiment("Table 1, SimSC and its baselines", comparisons.main, "5 per seed", _ALL),
    "backbones": Experiment("Table 2, backbones", comparisons.backbones, "1 per backbone with weights", _ALL),
    "l2norm": Experiment("Table 3, L2 normalisation", comparisons.l2norm, "3 per seed, all of main", _ALL),
    "eval-temperature": Experiment("Figure 6, evaluation temperature", sweeps.eval_temperature, "2, of main", _ONE),
    "learning-curves": Experiment("supplement, learning curves", supplement.learning_curves, "1, of main", _ONE),
    "gradients": Experiment("supplement, gradient magnitudes", supplement.gradients, "3, of main", _ONE),
    "manual-temperature": Experiment(
        "supplement, manual temperatures", sweeps.manual_temperature, "9, of which 2 of main", _ONE
    ),
    "learning-rate": Experiment("supplement, learning rates", sweeps.learning_rate, "6, of which 2 of main", _ONE),
    "heads": Experiment("supplement, matching heads", supplement.heads, "6", _ONE),
    "single-vs-mlp": Experiment(
        "supplement, single parameter or MLP", comparisons.single_vs_mlp, "2 per seed, of main", _ALL
    ),
    "temperatures": Experiment(
        "supplement, effective temperatures", comparisons.temperatures, "2 per seed, of main", _ALL
    ),
    "qualitative": Experiment("supplement, qualitative examples", supplement.qualitative, "2, of main", _ONE),
}
EXPERIMENTS: Registry[Experiment] = Registry("experiment")
for _name, _experiment in _TABLE.items():
    EXPERIMENTS.add(_name, _experiment)


def run_experiment(name: str, context: Context) -> Outcome:
    """Run an experiment in its own folder below the context's and write its table, figures and ``results.json``."""
    experiment = EXPERIMENTS[name]
    own = replace(context, folder=context.folder / name)
    own.folder.mkdir(parents=True, exist_ok=True)
    outcome = experiment.run(own)
    facts = {
        "experiment": name,
        "title": experiment.title,
        "position": list(EXPERIMENTS).index(name),
        "quick": context.quick,
        "config": {key: value for key, value in context.base.to_dict().items() if key != "weights"},
    }
    write_outcome(outcome, own.folder, facts)
    return outcome
