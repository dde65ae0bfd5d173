"""Of the supplement: matching heads, curves of a training, and qualitative examples."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from simsc.data.records import Pair
from simsc.data.sources import dataset_info, load_pairs
from simsc.evaluation.evaluator import Evaluator
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import find_protocol
from simsc.evaluation.scoring import SHOWN_ALPHA, is_correct
from simsc.experiments.context import Context
from simsc.experiments.measurements import Subject, protocol_name
from simsc.experiments.runs import BASELINE_BETA_EVAL, title, train_command
from simsc.experiments.tables import Outcome, Row, number, paper_columns, paper_figures, paper_row, pck_cell
from simsc.files import write_text
from simsc.pictures.curves import smooth
from simsc.training.config import Config
from simsc.training.presets import load_preset

TITLES = {"sfnet": "SFNet", "ncnet": "NCNet", "cats": "CATs"}
# The temperature each head came with, whatever the user changes; NCNet's 1 is evaluated at the common one.
DEFAULTS: dict[str, dict[str, Any]] = {
    "sfnet": {"temperature": f"fixed:{BASELINE_BETA_EVAL}", "beta_eval": 1.0},
    "ncnet": {"temperature": "fixed:1", "beta_eval": BASELINE_BETA_EVAL},
    "cats": {"temperature": f"fixed:{BASELINE_BETA_EVAL}", "beta_eval": 1.0},
}
GRADIENT_VARIANTS = ("beta1", "no-l2norm", "mlp")
PAIRS = 4


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


def qualitative(context: Context) -> Outcome:
    """Match pictures side by side, right and wrong told apart."""
    from simsc.pictures import contact_sheet, draw_matches, save_picture

    pairs = one_per_category(load_pairs(context.target.data, context.meter.root, context.target.split), PAIRS)
    subjects = {
        title("pre-trained"): context.before_training(BASELINE_BETA_EVAL),
        title("beta1"): context.trained(context.config("beta1")),
        title("mlp"): context.trained(context.config("mlp")),
    }
    info, protocol = dataset_info(context.target.data), find_protocol(protocol_name(context.base))
    columns, rows = [], []
    for name, subject in subjects.items():
        predictions = _predict(context, subject, pairs)
        correct = [is_correct(each, protocol, info.threshold) for each in predictions]
        columns.append([
            draw_matches(pair.source.load(), pair.target.load(), pair.source_points, found.predicted,
                         truth=pair.target_points, correct=right, title=name, height=220)
            for pair, found, right in zip(pairs, predictions, correct, strict=True)
        ])  # fmt: skip
        shares = {pair.name: number(100 * float(right.mean())) for pair, right in zip(pairs, correct, strict=True)}
        command = train_command(subject.config, context.preset) if subject.trained else None
        rows.append(Row(name, shares, epochs=subject.config.epochs if subject.trained else None,
                        protocol=protocol.name, command=command))  # fmt: skip
    sheet = contact_sheet([picture for line in zip(*columns, strict=True) for picture in line], columns=len(columns))
    path = save_picture(sheet, context.folder / "qualitative.png")
    notes = [f"PCK@{SHOWN_ALPHA:g} (%) of the pairs shown, the first of each category of {context.target.title}."]
    return Outcome(
        [pair.name for pair in pairs], rows, [path, _as_svg(sheet, path.with_suffix(".svg"))], [*notes, *context.notes]
    )


def one_per_category(pairs: list[Pair], count: int) -> list[Pair]:
    """The first pair of each of the first ``count`` categories."""
    return list({pair.category: pair for pair in reversed(pairs)}.values())[::-1][:count]


def _predict(context: Context, subject: Subject, pairs: list[Pair]) -> list[Prediction]:
    model = context.meter.load(subject)
    encoder = context.meter.encoder(model.network, protocol_name(subject.config))
    return Evaluator(encoder, subject.config.localizer, subject.config.beta_eval).predict(pairs)


def _as_svg(picture: Image.Image, path: Path) -> Path:
    """The picture inside an SVG, for documents that take only those."""
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    data = base64.b64encode(stream.getvalue()).decode()
    write_text(
        path,
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width}" height="{picture.height}">'
        f'<image width="100%" height="100%" href="data:image/png;base64,{data}"/></svg>\n',
    )
    return path
