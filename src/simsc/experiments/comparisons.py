"""Tables that compare trainings: main, backbones, L2 norm, single parameter, temperatures, matching heads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from simsc.evaluation.benchmark import CLEAN
from simsc.evaluation.scoring import Spread
from simsc.experiments.experiment import ALL_DATA, Context, experiment, facts
from simsc.experiments.measurements import Subject
from simsc.experiments.paper import TITLES as PAPER_TITLES
from simsc.experiments.paper import backbone_rows, paper_columns, paper_figures, paper_row, pck_rows
from simsc.experiments.report import ALPHA_HEADING, Outcome, Row, pck_cell
from simsc.experiments.variants import BASELINE_BETA_EVAL, TITLES, quick_weights, title
from simsc.models.heads import HEADS
from simsc.models.specs import find_backbone
from simsc.models.weights import find_weights
from simsc.training.config import Config
from simsc.training.presets import load_preset

MAIN_VARIANTS = ("beta1", "no-l2norm", "fixed:0.03", "single", "mlp")
BACKBONES = {
    "resnet101": "ResNet101",
    "resnet101-full": "ResNet101*",
    "resnet50": "ResNet50",
    "resnet50-full": "ResNet50*",
    "dino-vitb8": "DINO ViT-B/8",
    "ibot-vitb16": "iBOT ViT-B/16",
    "ibot-vitb16-full": "iBOT ViT-B/16*",
    "dinov2-small": "DINOv2 ViT-S/14",
    "dinov2-base": "DINOv2 ViT-B/14",
    "dinov2-large": "DINOv2 ViT-L/14",
}
HEAD_TITLES = {"sfnet": "SFNet", "ncnet": "NCNet", "cats": "CATs"}
# The temperature each head came with, whatever the user changes; NCNet's 1 is evaluated at the common one.
HEAD_DEFAULTS: dict[str, dict[str, Any]] = {
    "sfnet": {"temperature": f"fixed:{BASELINE_BETA_EVAL}", "beta_eval": 1.0},
    "ncnet": {"temperature": "fixed:1", "beta_eval": BASELINE_BETA_EVAL},
    "cats": {"temperature": f"fixed:{BASELINE_BETA_EVAL}", "beta_eval": 1.0},
}
CELLS = f"Cells: PCK (%) per image at alpha = {ALPHA_HEADING}."


@experiment("main", "Table 1, SimSC and its baselines", "5 per seed", ALL_DATA)
def main(context: Context) -> Outcome:
    """Table 1: SimSC against its baselines, with the same budget each."""
    rows = [pretrained_row(context), *variant_rows(context, MAIN_VARIANTS)]
    if not context.quick:
        rows.append(_original_size(context))
    names = [name for name in paper_figures()["table1_main"] if name.startswith("SimSC")]
    paper = [*pck_rows("table1_main", names), *backbone_rows(["ResNet50"])]
    return _outcome(context, rows, paper, "PCK by threshold")


@experiment("backbones", "Table 2, backbones", "1 per backbone with weights", ALL_DATA)
def backbones(context: Context) -> Outcome:
    """Table 2: SimSC on several backbones; those whose weights are not on this machine are left out."""
    rows, notes = [], []
    for name, words in _wanted_backbones(context).items():
        config = _backbone_config(context, name)
        if config.weights == "default" and find_weights(find_backbone(config.backbone)) is None:
            notes.append(f"{words} is left out: run `simsc models fetch {config.backbone}` first.")
            continue
        subject = context.trained(config)
        rows.append(measured_row(context, words, subject, preset=name))
    outcome = _outcome(context, rows, backbone_rows(), "Backbones")
    return Outcome(outcome.columns, outcome.rows, outcome.figures, [*outcome.notes, *notes])


@experiment("l2norm", "Table 3, L2 normalisation", "3 per seed, all of main", ALL_DATA)
def l2norm(context: Context) -> Outcome:
    """Table 3: what the L2 normalisation does without a temperature."""
    rows = variant_rows(context, ("beta1", "no-l2norm", "mlp"))
    return _outcome(context, rows, pck_rows("table3_l2_normalisation_resnet101*"), "The effect of the L2 norm")


@experiment("single-vs-mlp", "supplement, single parameter or MLP", "2 per seed, of main", ALL_DATA)
def single_vs_mlp(context: Context) -> Outcome:
    """Supplement: one learnable temperature against one per image."""
    rows = variant_rows(context, ("single", "mlp"))
    return _outcome(context, rows, pck_rows("supp_table_single_parameter_vs_mlp"), "Single parameter or MLP")


@experiment("temperatures", "supplement, effective temperatures", "2 per seed, of main", ALL_DATA)
def temperatures(context: Context) -> Outcome:
    """Supplement: mean and standard deviation of the effective temperature."""
    rows = []
    for name in ("single", "mlp"):
        for row in variant_rows(context, [name]):
            cells = {target: _spread(Spread(**values["temperature"])) for target, values in row.values.items()}
            rows.append(Row(**{**vars(row), "cells": cells}))
    paper = []
    for name, entry in paper_figures()["supp_table_effective_temperature_mean_std"].items():
        if name != "remark":
            cells = {PAPER_TITLES[data]: " ± ".join(f"{v:.4f}" for v in pair) for data, pair in entry.items()}
            paper.append(paper_row(name, cells, entry))
    columns = paper_columns(paper, _columns(context))
    remark = paper_figures()["supp_table_effective_temperature_mean_std"]["remark"]
    return Outcome(columns, [*rows, *paper], _temperature_figure(context, rows), [*context.notes, f"Paper: {remark}."])


@experiment("heads", "supplement, matching heads", "6")
def heads(context: Context) -> Outcome:
    """SFNet, NCNet and CATs: their own temperature, SimSC at that temperature, SimSC at the learned one."""
    there = [head for head in HEAD_TITLES if head in HEADS]
    notes = [f"{HEAD_TITLES[head]} is left out: there is no such head." for head in HEAD_TITLES if head not in there]
    rows = [row for head in there for row in _head_rows(context, head)]
    paper = _paper_head_rows()
    columns = paper_columns(paper, [context.target.title])
    return Outcome(columns, [*rows, *paper], _head_figure(context, rows), [*notes, *context.notes])


def pretrained_row(context: Context) -> Row:
    """The backbone before training, at the evaluation temperature of the baselines."""
    subject = context.before_training(BASELINE_BETA_EVAL)
    return measured_row(context, f"{TITLES['pre-trained']}, β_eval = {BASELINE_BETA_EVAL:g}", subject)


def variant_rows(context: Context, names: Iterable[str]) -> list[Row]:
    """One row per variant and seed."""
    return [
        measured_row(context, title(name), context.trained(context.config(name, seed)))
        for name in names
        for seed in context.seeds
    ]


def measured_row(context: Context, name: str, subject: Subject, protocol: str | None = None, preset: str = "") -> Row:
    """A model on all data sets of the context, under the paper's protocol or another one."""
    cells, values = {}, {}
    for target in context.targets:
        context.say(f"measure: {name} on {target.title}")
        found = context.meter.measure(subject, target, protocol=protocol)
        for column, score in zip(target.columns, (found.score, found.subsets.get(CLEAN)), strict=False):
            if score is not None:
                cells[column], values[column] = pck_cell(score.per_image), facts(score)
    return context.row(name, subject, cells, values, protocol=protocol, preset=preset)


def _original_size(context: Context) -> Row:
    subject = context.trained(context.config("mlp"))
    return measured_row(context, f"{title('mlp')}, original size", subject, protocol="original")


def _columns(context: Context) -> list[str]:
    return [column for target in context.targets for column in target.columns]


def _outcome(context: Context, rows: Sequence[Row], paper: Sequence[Row], heading: str) -> Outcome:
    columns = paper_columns(paper, _columns(context))
    return Outcome(columns, [*rows, *paper], _pck_figure(context, rows, heading), [CELLS, *context.notes])


def _pck_figure(context: Context, rows: Sequence[Row], heading: str) -> tuple[Path, ...]:
    """PCK over alpha on the data set that was trained on, for the first seed of each row."""
    from simsc.pictures import plot_pck_curves

    curves = {}
    for row in rows:
        if row.seed in (None, context.seeds[0]) and row.protocol != "original":
            values = row.values[context.target.title]["per_image"]
            curves[row.name] = list(values), list(values.values())
    return plot_pck_curves(curves, context.folder / "pck.png", title=f"{heading}: {context.target.title}")


def _temperature_figure(context: Context, rows: Sequence[Row]) -> tuple[Path, ...]:
    """Effective temperature in training, of the runs behind the rows."""
    from simsc.pictures import plot_lines

    curves = {}
    for name in ("single", "mlp"):
        records = context.trained(context.config(name)).folder.read_metrics()
        steps = [record for record in records if "temperature" in record]
        curves[title(name)] = [each["step"] for each in steps], [each["temperature"] for each in steps]
    assert rows
    return plot_lines(
        curves, context.folder / "temperatures.png", xlabel="step", ylabel="effective temperature",
        title="Effective temperature in training", log_y=True, markers=False,
    )  # fmt: skip


def _spread(temperature: Spread) -> str:
    return f"{temperature.mean:.4f} ± {temperature.std:.4f}"


def _wanted_backbones(context: Context) -> dict[str, str]:
    """Presets and their names in print: the paper's, the ones asked for, or two quick ones."""
    if context.chosen_backbones:
        return {name: BACKBONES.get(name, name) for name in context.chosen_backbones}
    return (
        {"resnet50": BACKBONES["resnet50"], "dinov2-small": BACKBONES["dinov2-small"]} if context.quick else BACKBONES
    )


def _backbone_config(context: Context, name: str) -> Config:
    """A preset's backbone, trained as all others of this experiment."""
    own = load_preset(name, context.base.data)
    changes: dict[str, Any] = {"backbone": own.backbone, "image_size": own.image_size, "weights": "default"}
    if context.quick:
        changes |= {"image_size": context.base.image_size, "weights": quick_weights(own.backbone)}
    else:
        changes |= {"trainable": own.trainable, "rate": own.rate}
    changes |= context.changes
    stride = find_backbone(own.backbone).stride
    return context.config("mlp", **{**changes, "image_size": int(changes["image_size"]) // stride * stride})


def _head_rows(context: Context, head: str) -> list[Row]:
    own = load_preset(head, context.base.data)
    changes = {"head": own.head, "trainable": own.trainable, "head_rate": own.head_rate, **context.changes}
    default = context.config("mlp", **{**changes, **HEAD_DEFAULTS[head]})
    learned = context.config("mlp", **changes)
    beta = f"β_eval = {BASELINE_BETA_EVAL:g}"
    return [
        _head_row(context, f"{HEAD_TITLES[head]}, default, {beta}", default, None),
        _head_row(context, f"{HEAD_TITLES[head]} + SimSC, {beta}", learned, BASELINE_BETA_EVAL),
        _head_row(context, f"{HEAD_TITLES[head]} + SimSC, learned β", learned, None),
    ]


def _head_row(context: Context, name: str, config: Config, temperature: float | None) -> Row:
    subject = context.trained(config)
    score = context.score(subject, temperature)
    return context.row(name, subject, {context.target.title: pck_cell(score.per_image)}, facts(score))


def _head_figure(context: Context, rows: list[Row]) -> tuple[Any, ...]:
    from simsc.pictures import plot_pck_curves

    if not rows:
        return ()
    curves = {
        row.name: (list(row.values["per_image"]), list(row.values["per_image"].values()))
        for row in rows
        if f"+ SimSC, β_eval = {BASELINE_BETA_EVAL:g}" not in row.name
    }
    return plot_pck_curves(curves, context.folder / "heads.png", title=f"Matching heads: {context.target.title}")


def _paper_head_rows() -> list[Row]:
    table = paper_figures()["supp_table_heads_pfpascal_alpha_0.05_0.1"]
    rows = []
    for setting, heads_of in table.items():
        for head, (small, large) in heads_of.items():
            values = {0.05: small, 0.1: large}
            rows.append(paper_row(f"{head}, {setting}", {"PF-Pascal": pck_cell(values)}, {"per_image": values}))
    return rows
