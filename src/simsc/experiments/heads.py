"""Supplement: matching heads with and without temperature learning."""

from __future__ import annotations

from typing import Any

from simsc.experiments.context import Context
from simsc.experiments.measure import protocol_name
from simsc.experiments.outcome import Outcome, Row
from simsc.experiments.paper import paper_columns, paper_figures, paper_row
from simsc.experiments.tables import pck_cell
from simsc.experiments.variants import BASELINE_BETA_EVAL, train_command
from simsc.training.config import Config
from simsc.training.presets import load_preset

TITLES = {"sfnet": "SFNet", "ncnet": "NCNet", "cats": "CATs"}
# The temperature each head came with, whatever the user changes; NCNet's 1 is evaluated at the common one.
DEFAULTS: dict[str, dict[str, Any]] = {
    "sfnet": {"temperature": f"fixed:{BASELINE_BETA_EVAL}", "beta_eval": 1.0},
    "ncnet": {"temperature": "fixed:1", "beta_eval": BASELINE_BETA_EVAL},
    "cats": {"temperature": f"fixed:{BASELINE_BETA_EVAL}", "beta_eval": 1.0},
}


def heads(context: Context) -> Outcome:
    """SFNet, NCNet and CATs: their own temperature, SimSC at that temperature, SimSC at the learned one."""
    from simsc.models.heads import HEADS

    there = [head for head in TITLES if head in HEADS]
    notes = [f"{TITLES[head]} is left out: there is no such head." for head in TITLES if head not in there]
    rows = [row for head in there for row in _head_rows(context, head)]
    paper = _paper_rows()
    columns = paper_columns(paper, [context.target.title])
    return Outcome(columns, [*rows, *paper], _figure(context, rows), [*notes, *context.notes])


def _head_rows(context: Context, head: str) -> list[Row]:
    own = load_preset(head, context.base.data)
    changes = {"head": own.head, "trainable": own.trainable, "head_rate": own.head_rate, **context.changes}
    default = context.config("mlp", **{**changes, **DEFAULTS[head]})
    learned = context.config("mlp", **changes)
    beta = f"β_eval = {BASELINE_BETA_EVAL:g}"
    return [
        _row(context, f"{TITLES[head]}, default, {beta}", default, None),
        _row(context, f"{TITLES[head]} + SimSC, {beta}", learned, BASELINE_BETA_EVAL),
        _row(context, f"{TITLES[head]} + SimSC, learned β", learned, None),
    ]


def _row(context: Context, name: str, config: Config, temperature: float | None) -> Row:
    subject = context.trained(config)
    result = context.meter.measure(subject, context.target, temperature=temperature)
    values = {key: result[key] for key in ("per_image", "per_point", "temperature")}
    cells = {context.target.title: pck_cell(result["per_image"])}
    return Row(
        subject.label(name), cells, seed=config.seed, epochs=config.epochs, protocol=protocol_name(config),
        command=train_command(config, context.preset), values=values,
    )  # fmt: skip


def _figure(context: Context, rows: list[Row]) -> tuple[Any, ...]:
    from simsc.pictures import plot_pck_curves

    if not rows:
        return ()
    curves = {
        row.name: ([float(alpha) for alpha in row.values["per_image"]], list(row.values["per_image"].values()))
        for row in rows
        if f"+ SimSC, β_eval = {BASELINE_BETA_EVAL:g}" not in row.name
    }
    return plot_pck_curves(curves, context.folder / "heads.png", title=f"Matching heads: {context.target.title}")


def _paper_rows() -> list[Row]:
    table = paper_figures()["supp_table_heads_pfpascal_alpha_0.05_0.1"]
    rows = []
    for setting, heads_of in table.items():
        for head, (small, large) in heads_of.items():
            values = {"0.05": small, "0.1": large}
            rows.append(paper_row(f"{head}, {setting}", {"PF-Pascal": pck_cell(values)}, values))
    return rows
