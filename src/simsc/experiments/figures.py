"""Figures of a training itself (learning curves, gradient magnitudes) and of what was learned (matches in pictures)."""

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
from simsc.experiments.experiment import Context, experiment
from simsc.experiments.measurements import Subject
from simsc.experiments.report import Outcome, Row, number
from simsc.experiments.variants import BASELINE_BETA_EVAL, title, train_command
from simsc.files import write_text
from simsc.pictures.curves import smooth

GRADIENT_VARIANTS = ("beta1", "no-l2norm", "mlp")
PAIRS = 4


@experiment("learning-curves", "supplement, learning curves", "1, of main")
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


@experiment("gradients", "supplement, gradient magnitudes", "3, of main")
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


@experiment("qualitative", "supplement, qualitative examples", "2, of main")
def qualitative(context: Context) -> Outcome:
    """Match pictures side by side, right and wrong told apart."""
    from simsc.pictures import contact_sheet, draw_matches, save_picture

    pairs = one_per_category(load_pairs(context.target.data, context.meter.root, context.target.split), PAIRS)
    subjects = {
        title("pre-trained"): context.before_training(BASELINE_BETA_EVAL),
        title("beta1"): context.trained(context.config("beta1")),
        title("mlp"): context.trained(context.config("mlp")),
    }
    info, protocol = dataset_info(context.target.data), find_protocol("paper-256", context.base.image_size)
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
        rows.append(context.row(name, subject, shares))
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
    encoder = context.meter.encoder(model.network, subject.protocol)
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


def _line(records: list[dict[str, Any]], layer: str) -> tuple[list[int], np.ndarray]:
    values = [record["gradients"][layer] for record in records]
    return [record["step"] for record in records], smooth(values, max(len(values) // 20, 1))


def _mean(records: list[dict[str, Any]], layer: str) -> float:
    return float(np.mean([record["gradients"][layer] for record in records]))
