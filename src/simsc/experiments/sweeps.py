"""Figures over a swept setting: evaluation temperature, training temperature, learning rate."""

from __future__ import annotations

from typing import Any

from simsc.experiments.experiment import Context, experiment, facts
from simsc.experiments.paper import paper_columns, paper_figures, paper_row
from simsc.experiments.report import Outcome, Row, number, pck_cell
from simsc.experiments.variants import BASELINE_BETA_EVAL, title

EVAL_TEMPERATURES = (0.001, 0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0)
TRAIN_TEMPERATURES = (0.004, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3, 1.0)
RATE_FACTORS = (0.1, 1.0, 10.0, 100.0, 1000.0)
ALPHA = 0.1


@experiment("eval-temperature", "Figure 6, evaluation temperature", "2, of main")
def eval_temperature(context: Context) -> Outcome:
    """Figure 6: pre-trained, β_trn = 1 and SimSC over the evaluation temperature."""
    from simsc.pictures import plot_sweep

    learned = context.trained(context.config("mlp"))
    subjects = {
        title("pre-trained"): context.before_training(BASELINE_BETA_EVAL),
        title("beta1"): context.trained(context.config("beta1")),
        title("mlp"): learned,
    }
    own = context.score(learned)
    series: dict[str, list[float]] = {}
    rows = []
    for name, subject in subjects.items():
        results = context.meter.sweep(subject, context.target, EVAL_TEMPERATURES)
        series[name] = [result.per_image[ALPHA] for result in results]
        cells = {f"{beta:g}": number(value) for beta, value in zip(EVAL_TEMPERATURES, series[name], strict=True)}
        rows.append(context.row(name, subject, {**cells, "best": number(max(series[name]))}))
    rows[-1] = Row(**{**vars(rows[-1]), "cells": {**rows[-1].cells, "learned": number(own.per_image[ALPHA])}})
    gain = own.per_image[ALPHA] - max(series[title("beta1")])
    figures = plot_sweep(
        EVAL_TEMPERATURES, {**series, "SimSC, learned β": [own.per_image[ALPHA]] * len(EVAL_TEMPERATURES)},
        context.folder / "eval-temperature.png", xlabel="evaluation temperature", title=context.target.title,
    )  # fmt: skip
    notes = [
        f"PCK@{ALPHA} on {context.target.title} by β_eval; 'learned' is SimSC at its own temperature.",
        f"SimSC over β_trn = 1 at its best β_eval: {gain:+.1f} points; paper: "
        + ", ".join(f"{name} {value:+.1f}" for name, value in _paper("figure6_gain_over_beta_trn_1_points")) + ".",
    ]  # fmt: skip
    columns = [*(f"{beta:g}" for beta in EVAL_TEMPERATURES), "best", "learned"]
    return Outcome(columns, rows, figures, [*notes, *context.notes])


@experiment("manual-temperature", "supplement, manual temperatures", "9, of which 2 of main")
def manual_temperature(context: Context) -> Outcome:
    """Supplement: training at fixed temperatures, evaluated at the same ones."""
    from simsc.pictures import plot_sweep

    subjects = {f"{beta:g}": context.trained(context.config(f"fixed:{beta:g}")) for beta in TRAIN_TEMPERATURES}
    subjects["SimSC"] = context.trained(context.config("mlp"))
    rows, values, skipped = [], [], 0
    for name, subject in subjects.items():
        result = context.score(subject)
        values.append(result.per_image[ALPHA])
        steps = subject.summary()["skipped_steps"]
        skipped += steps
        cells = {context.target.title: pck_cell(result.per_image), "skipped steps": str(steps)}
        words = title("mlp") if name == "SimSC" else title(f"fixed:{name}")
        rows.append(context.row(words, subject, cells, facts(result)))
    learned = context.score(subjects["SimSC"]).temperature.mean
    figures = plot_sweep(
        TRAIN_TEMPERATURES, {"fixed": values[:-1], "SimSC": [values[-1]] * len(TRAIN_TEMPERATURES)},
        context.folder / "manual-temperature.png", xlabel="training and evaluation temperature",
        title=context.target.title, mark_x={f"learned {learned:.3f}": learned},
    )  # fmt: skip
    entry = paper_figures()["supp_manual_temperature_resnet101*"]
    best = max(zip(values[:-1], TRAIN_TEMPERATURES, strict=True))[1]
    notes = [
        f"Best fixed temperature: {best:g} (paper: {entry['best_beta_trn']}); the paper became NaN at "
        f"{entry['nan_at']}, here {skipped} steps in all had a loss or gradient that is not finite.",
    ]
    return Outcome([context.target.title, "skipped steps"], rows, figures, [*notes, *context.notes])


@experiment("learning-rate", "supplement, learning rates", "6, of which 2 of main")
def learning_rate(context: Context) -> Outcome:
    """Supplement: no learning rate makes up for a missing temperature."""
    from simsc.pictures import plot_sweep

    rates = [context.base.rates.backbone * factor for factor in RATE_FACTORS]
    rows, values = [], []
    for rate in rates:
        subject = context.trained(context.config("beta1", rate=rate))
        result = context.score(subject)
        sweep = context.meter.sweep(subject, context.target, EVAL_TEMPERATURES)
        values.append(result.per_image[ALPHA])
        best = max(each.per_image[ALPHA] for each in sweep)
        cells = {context.target.title: pck_cell(result.per_image), "@0.1, best β_eval": number(best)}
        rows.append(context.row(f"β_trn = 1, rate {rate:.0e}", subject, cells, facts(result)))
    learned = context.trained(context.config("mlp"))
    own = context.score(learned)
    rows.append(context.row(title("mlp"), learned, {context.target.title: pck_cell(own.per_image)}, facts(own)))
    figures = plot_sweep(
        rates, {"β_trn = 1": values, "SimSC": [own.per_image[ALPHA]] * len(rates)},
        context.folder / "learning-rate.png", xlabel="learning rate", title=context.target.title,
    )  # fmt: skip
    paper = _learning_rate_paper()
    notes = [f"β_trn = 1 is evaluated at β_eval = {BASELINE_BETA_EVAL:g}; its best β_eval is read from a sweep."]
    return Outcome(paper_columns(paper, list(rows[0].cells)), [*rows, *paper], figures, [*notes, *context.notes])


def _learning_rate_paper() -> list[Row]:
    entry = paper_figures()["supp_table_learning_rate_beta_trn_1_pfpascal_alpha_0.1"]
    return [
        paper_row(f"{backbone}, {name if name == 'SimSC' else f'β_trn = 1, rate {name}'}",
                  {"PF-Pascal": pck_cell({ALPHA: value})}, {"per_image": {ALPHA: value}})
        for backbone, values in entry.items()
        if backbone != "beta_eval"
        for name, value in values.items()
    ]  # fmt: skip


def _paper(table: str) -> list[tuple[str, Any]]:
    return list(paper_figures()[table].items())
