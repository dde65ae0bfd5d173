"""What ``simsc demo`` does, step by step: match with the packaged model, adapt it to new categories, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from simsc.data.records import Pair
from simsc.data.sources import dataset_info, load_pairs
from simsc.demo.page import Section, write_page
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import find_protocol
from simsc.evaluation.scoring import score
from simsc.evaluation.verdicts import is_correct
from simsc.files import sha256
from simsc.models.model import SimSC
from simsc.models.zoo import DEFAULT, find_model, open_model
from simsc.training.config import Config
from simsc.training.listener import Listener
from simsc.training.report import write_curves
from simsc.training.trainer import Trainer

PROTOCOL = "paper-256"
ADAPTATION = {
    "data": "scenes",
    "trainable": "last-block",
    "batch_size": 4,
    "max_pairs": 480,
    "log_every": 10,
    "cache": "memory",
}
Say = Callable[[str], None]


def run_demo(
    out: Path,
    source: Path | None = None,
    target: Path | None = None,
    epochs: int = 3,
    say: Say = print,
    listener: Listener | None = None,
) -> Path:
    """Run the demonstration and return the path of its report."""
    sections = []
    if source and target:
        say(f"Matching {source} and {target} ...")
        sections.append(_own_images(source, target))
    pairs = load_pairs("scenes", None, "test")
    model = open_model(DEFAULT)
    say(f"Measuring {DEFAULT} on {len(pairs)} rendered pairs it has never seen the like of ...")
    before = _predict(model, pairs)
    say(f"Adapting it to them ({epochs} epochs on other renderings; temperature and validation PCK live) ...")
    run = out / f"run-{_start_digest()}"
    after = _predict(_adapt(run, epochs, listener), pairs)
    results = {"before": _score(before), "after": _score(after)}
    for name, result in results.items():
        say(f"PCK@0.1 {name} adaptation: {result['per_image'][0.1]:.1f}")
    sections += [_table(results), _matches(pairs, before, after), _curves(run)]
    return write_page(out / "report.html", sections)


def _predict(model: SimSC, pairs: Sequence[Pair]) -> list[Prediction]:
    return Evaluator(ImageEncoder(model.eval(), find_protocol(PROTOCOL))).predict(pairs)


def _score(predictions: Sequence[Prediction]) -> dict[str, Any]:
    return score(predictions, find_protocol(PROTOCOL), dataset_info("scenes").threshold)


def _start_digest() -> str:
    """Names the model that is adapted: the result of another one must not be taken for its own."""
    path = find_model(DEFAULT)
    return sha256(path)[:8] if path else DEFAULT


def _adapt(folder: Path, epochs: int, listener: Listener | None) -> SimSC:
    """Fine-tune the last block of the packaged model on training renderings; an earlier result is taken again."""
    config = Config().updated({**ADAPTATION, "start": DEFAULT, "epochs": epochs})
    Trainer(config, folder, resume=True, listener=listener).run()
    return open_model(folder)


def _own_images(source: Path, target: Path) -> Section:
    import simsc
    from simsc.images import read_image
    from simsc.pictures import draw_matches

    pixels = read_image(source)
    height, width = pixels.shape[:2]
    x, y = np.meshgrid((np.arange(6) + 0.5) * width / 6 - 0.5, (np.arange(6) + 0.5) * height / 6 - 0.5)
    grid = np.stack([x.ravel(), y.ravel()], axis=1)
    found = simsc.load().match(source, target, grid)
    # A grid has points in the background too; the surest third is what a person wants to see.
    sure = found.confidence >= np.quantile(found.confidence, 2 / 3)
    picture = draw_matches(
        pixels, read_image(target), grid[sure], found.points[sure], confidence=found.confidence[sure]
    )
    return Section("Your images", "The surest third of a 6 x 6 grid of points.", pictures=[("", picture)])


def _table(results: dict[str, dict[str, Any]]) -> Section:
    alphas = list(results["before"]["per_image"])
    rows = [["", *(f"PCK@{alpha}" for alpha in alphas), "temperature"]]
    for name, result in results.items():
        temperature = result["temperature"]
        values = [f"{result['per_image'][alpha]:.1f}" for alpha in alphas]
        rows.append([f"{name} adaptation", *values, f"{temperature['mean']:.4f} ± {temperature['std']:.4f}"])
    text = (
        "The packaged model learned on photographs (PF-Pascal); these are rendered animals, vehicles, chairs and "
        f"faces. Test renderings, protocol {PROTOCOL}, per image. Adaptation trains the last block "
        "and the temperature module on other renderings."
    )
    return Section("Before and after", text, table=rows)


def _matches(pairs: Sequence[Pair], before: Sequence[Prediction], after: Sequence[Prediction]) -> Section:
    """The pair of each category with the most points, before and after."""
    chosen: dict[str, int] = {}
    for index, pair in enumerate(pairs):
        if len(pair.source_points) > len(pairs[chosen.setdefault(pair.category, index)].source_points):
            chosen[pair.category] = index
    pictures: list[tuple[str, Image.Image]] = []
    for category, index in chosen.items():
        for title, predictions in (("before", before), ("after", after)):
            pictures.append((f"{category}, {title}", _draw(pairs[index], predictions[index])))
    text = "Blue discs are correct at PCK@0.1; vermillion crosses are not, and a thin line leads to the truth."
    return Section("Matches", text, pictures=pictures)


def _draw(pair: Pair, prediction: Prediction) -> Image.Image:
    from simsc.pictures import draw_matches

    return draw_matches(
        pair.source.load(),
        pair.target.load(),
        pair.source_points,
        prediction.predicted,
        truth=pair.target_points,
        correct=is_correct(prediction, find_protocol(PROTOCOL), dataset_info("scenes").threshold),
        height=260,
    )


def _curves(run: Path) -> Section:
    path = write_curves(run)
    text = "Loss, both temperatures and their product, and PCK on validation renderings while adapting."
    return Section("Learning curves", text, pictures=[("", Image.open(path))] if path else [])
