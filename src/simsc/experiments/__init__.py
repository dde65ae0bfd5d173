"""One experiment per table and figure of the paper, by name in :data:`EXPERIMENTS`."""

from simsc.experiments import boxes, comparisons, figures, labelling, mirror, sweeps
from simsc.experiments.experiment import EXPERIMENTS, make_context, run_experiment

__all__ = [
    "EXPERIMENTS",
    "boxes",
    "comparisons",
    "figures",
    "labelling",
    "make_context",
    "mirror",
    "run_experiment",
    "sweeps",
]
