"""Supplement: the same pairs matched by the pre-trained, the plainly fine-tuned and the SimSC model."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from PIL import Image

from simsc.data.records import Pair
from simsc.data.sources import dataset_info, load_pairs
from simsc.evaluation.evaluator import Evaluator
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import find_protocol
from simsc.evaluation.scoring import SHOWN_ALPHA, is_correct
from simsc.experiments.context import Context
from simsc.experiments.measure import Subject, protocol_name
from simsc.experiments.outcome import Outcome, Row
from simsc.experiments.tables import number
from simsc.experiments.variants import BASELINE_BETA_EVAL, title, train_command
from simsc.files import write_text

PAIRS = 4


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
