"""Figures of a training itself: learning curves, and gradient magnitudes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from simsc.experiments.context import Context
from simsc.experiments.outcome import Outcome, Row
from simsc.experiments.tables import number
from simsc.experiments.variants import title, train_command
from simsc.pictures.curves import smooth

GRADIENT_VARIANTS = ("beta1", "no-l2norm", "mlp")


def learning_curves(context: Context) -> Outcome:
    """Supplement: temperatures, validation PCK and loss over the steps."""
    from simsc.pictures import plot_learning_curves

    config = context.config("mlp")
    records = context.trained(config).folder.read_metrics()
    figures = plot_learning_curves(records, context.folder / "learning-curves.png", title=title("mlp"))
    steps = [record for record in records if "temperature" in record]
    lowest = min(steps, key=lambda record: record["temperature"])
    best = max((r for r in records if "val" in r), key=lambda record: record["val"]["0.1"])
    cells = {
        "first temperature": number(steps[0]["temperature"], 4),
        "lowest (step)": f"{lowest['temperature']:.4f} ({lowest['step']})",
        "last": number(steps[-1]["temperature"], 4),
        "best validation PCK@0.1 (step)": f"{best['val']['0.1']:.1f} ({best['step']})",
    }
    row = Row(title("mlp"), cells, seed=config.seed, epochs=config.epochs,
              command=train_command(config, context.preset))  # fmt: skip
    note = (
        "Paper, ResNet101* on PF-Pascal: temperature and loss drop until step 2,000, the temperature then rises and is "
        "stable after step 20,000; validation falls after step 12,000."
    )
    return Outcome(list(cells), [row], figures, [note, *context.notes])


def gradients(context: Context) -> Outcome:
    """Supplement: gradient magnitudes in the last bottleneck, with and without L2 norm, and for SimSC."""
    from simsc.pictures import plot_gradients

    tracks = {}
    configs = {name: context.config(name, track_gradients=True) for name in GRADIENT_VARIANTS}
    for name, config in configs.items():
        records = [r for r in context.trained(config).folder.read_metrics() if r.get("gradients")]
        tracks[name] = records
    layers = list(tracks["mlp"][0]["gradients"]) if tracks["mlp"] else []
    figures: list[Path] = []
    for layer in layers:
        series = {title(name): _line(records, layer) for name, records in tracks.items()}
        figures += plot_gradients(series, context.folder / f"gradients-{layer}.png", title=layer)
    means = {name: {layer: _mean(records, layer) for layer in layers} for name, records in tracks.items()}
    rows = []
    for name, config in configs.items():
        cells = {layer: f"{value:.2e} ({value / means['beta1'][layer]:.1f}x)" for layer, value in means[name].items()}
        rows.append(Row(title(name), cells, seed=config.seed, epochs=config.epochs, values=means[name],
                        command=f"{train_command(config, context.preset)} --set track_gradients=true"))  # fmt: skip
    notes = [
        "Mean magnitude over the training, in brackets relative to WithL2Norm.",
        "Paper: NoL2Norm and SimSC are larger than WithL2Norm by one order of magnitude.",
    ]
    return Outcome(layers, rows, figures, [*notes, *context.notes])


def _line(records: list[dict[str, Any]], layer: str) -> tuple[list[int], np.ndarray]:
    values = [record["gradients"][layer] for record in records]
    return [record["step"] for record in records], smooth(values, max(len(values) // 20, 1))


def _mean(records: list[dict[str, Any]], layer: str) -> float:
    return float(np.mean([record["gradients"][layer] for record in records]))
