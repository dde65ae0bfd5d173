"""Plots at the end of a run."""

from __future__ import annotations

from pathlib import Path

from simsc.training.run_folder import RunFolder


def write_curves(folder: Path) -> Path | None:
    """Learning curves of a run as PNG and SVG; None where plotting is not installed."""
    from simsc.errors import SimscError
    from simsc.pictures import plot_learning_curves

    try:
        plot_learning_curves(RunFolder(folder).read_metrics(), folder / "curves.png")
    except SimscError:
        return None
    return folder / "curves.png"
