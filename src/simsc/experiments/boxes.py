"""How well boxes are carried over by the dense flow, with and without dropping the unreliable ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simsc.data.records import Pair
from simsc.errors import DataError
from simsc.experiments.experiment import Context, experiment
from simsc.experiments.mirror import Sample, listed_pairs
from simsc.experiments.report import Outcome, Row, number
from simsc.matcher import EncodedImage, Matcher, load
from simsc.models import DEFAULT
from simsc.transfer.areas import LEAST, Box, box_iou, carried_box

SAMPLES = (Sample("spair", "test", 200, 14, "bird"), Sample("spair", "test", 360, 6))
QUICK = (Sample("scenes", "test", 6, 2),)
GOOD = 0.5


@dataclass(frozen=True)
class Carried:
    """What became of the box of one pair: its overlap with the true one, and its confidence."""

    category: str
    iou: float
    confidence: float


@experiment("boxes", "boxes carried from one image to another", "none", "SPair-71k")
def boxes(context: Context) -> Outcome:
    """Not in the paper: boxes as ``simsc transfer`` writes them, by the packaged model or that of ``--set start``."""
    matcher = load(context.base.start or DEFAULT, device="cpu")
    rows: list[Row] = []
    carried: list[Carried] = []
    for sample in QUICK if context.quick else SAMPLES:
        title = f"{sample.data} {sample.split}, {sample.category or 'all'}"
        pairs = listed_pairs(sample, np.random.default_rng(context.seeds[0]), context.meter.root)
        context.say(f"boxes: {len(pairs)} pairs of {title}")
        carried = carry_boxes(matcher, pairs)
        rows.append(_row(title, carried))
    for category in sorted({each.category for each in carried}):
        rows.append(_row(category, [each for each in carried if each.category == category]))
    notes = [f"Kept: confidence of at least {LEAST:g}. The lines below `all` are its categories."]
    figures = _plot(carried, context.folder / "boxes.png")
    return Outcome(list(rows[0].cells), rows, figures, [*notes, *context.notes])


def carry_boxes(matcher: Matcher, pairs: Sequence[Pair]) -> list[Carried]:
    """The boxes of all pairs; every image is encoded once."""
    encoded: dict[str, EncodedImage] = {}
    found = []
    for pair in pairs:
        for ref in (pair.source, pair.target):
            if ref.key not in encoded:
                encoded[ref.key] = matcher.encode(ref.load())
        flow = matcher.dense(encoded[pair.source.key], encoded[pair.target.key])
        box, confidence = carried_box(flow, _box(pair.source_box), None)
        iou = 0.0 if box is None else box_iou(box, _box(pair.target_box))
        found.append(Carried(pair.category, iou, confidence))
    return found


def _box(box: np.ndarray | None) -> Box:
    if box is None:
        raise DataError("boxes: these pairs have no boxes")
    x0, y0, x1, y1 = box.tolist()
    return x0, y0, x1, y1


def _row(name: str, carried: Sequence[Carried]) -> Row:
    every = np.array([each.iou for each in carried])
    kept = np.array([each.iou for each in carried if each.confidence >= LEAST])
    values = {
        "pairs": len(every),
        "median": float(np.median(every)),
        "good": 100 * float((every >= GOOD).mean()),
        "kept": 100 * len(kept) / len(every),
        "kept_median": float(np.median(kept)) if len(kept) else None,
        "kept_good": 100 * float((kept >= GOOD).mean()) if len(kept) else None,
    }
    cells = {
        "pairs": str(len(every)),
        "median IoU": number(values["median"], 2),
        "IoU of 0.5 (%)": number(values["good"]),
        "kept (%)": number(values["kept"]),
        "median IoU, kept": number(values["kept_median"], 2),
        "IoU of 0.5, kept (%)": number(values["kept_good"]),
    }
    return Row(name, cells, values=values)


def _plot(carried: Sequence[Carried], path: Path) -> tuple[Path, Path]:
    """Over the share that is kept, the most confident first: how many of the boxes are good."""
    from simsc.pictures import plot_lines

    iou = np.array([each.iou for each in sorted(carried, key=lambda each: -each.confidence)])
    count = np.arange(1, len(iou) + 1)
    shown = count >= min(len(iou), 20)  # the first few say nothing
    share = (100 * count / len(iou))[shown]
    lines = {f"IoU of at least {at:g}": (share, (100 * (iou >= at).cumsum() / count)[shown]) for at in (0.3, 0.5, 0.7)}
    return plot_lines(
        lines, path, xlabel="boxes kept, the most confident first (%)", ylabel="of these (%)", markers=False
    )
