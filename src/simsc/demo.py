"""What ``simsc demo`` does: match with the packaged model, adapt it to new categories, and report on one HTML page."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from simsc.data.records import Pair
from simsc.data.sources import dataset_info, load_pairs
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import find_protocol
from simsc.evaluation.scoring import Score, is_correct, score
from simsc.files import sha256, write_text
from simsc.models import QUICK
from simsc.models.card import Card, find_trained
from simsc.models.trained import Trained
from simsc.training.config import Config
from simsc.training.listener import Listener
from simsc.training.run_folder import write_curves
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
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.2rem; font-size: 1.25rem; }
table { border-collapse: collapse; }
th, td { padding: .35rem .9rem; border-bottom: 1px solid #d5dae2; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 1rem; }
.pictures.single { grid-template-columns: 1fr; }
figure { margin: 0; } figure img { width: 100%; height: auto; border-radius: 6px; } figcaption { color: #59647a; }
@media (prefers-color-scheme: dark) { body { background: #14181f; color: #e4e8ef; } th, td { border-color: #3a4454; } }
"""


@dataclass(frozen=True)
class Section:
    """A part of the page: a title, a sentence, and a table or captioned pictures."""

    title: str
    text: str
    table: list[list[str]] = field(default_factory=list)
    pictures: list[tuple[str, Image.Image]] = field(default_factory=list)

    def to_html(self) -> str:
        """The section as HTML, pictures included."""
        parts = [f"<h2>{html.escape(self.title)}</h2>", f"<p>{html.escape(self.text)}</p>"]
        if self.table:
            parts.append(_table(self.table))
        if self.pictures:
            single = " single" if len(self.pictures) == 1 else ""
            parts.append(f'<div class="pictures{single}">{"".join(_figure(*item) for item in self.pictures)}</div>')
        return "\n".join(parts)


def write_page(path: Path, sections: list[Section]) -> Path:
    """Write the report atomically."""
    body = "\n".join(section.to_html() for section in sections)
    write_text(
        path,
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>SimSC demonstration</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>SimSC: semantic correspondence with temperature learning</h1>\n{body}\n</body></html>\n",
    )
    return path


def _table(rows: list[list[str]]) -> str:
    head, *body = rows
    cells = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


def _figure(caption: str, picture: Image.Image) -> str:
    stream = io.BytesIO()
    picture.convert("RGB").save(stream, "PNG", optimize=True)
    data = base64.b64encode(stream.getvalue()).decode()
    note = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f'<figure><img alt="{html.escape(caption or "picture")}" src="data:image/png;base64,{data}">{note}</figure>'


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
    model = Trained.open(QUICK)
    say(f"Measuring {QUICK} on {len(pairs)} rendered pairs it has never seen the like of ...")
    before = _predict(model, pairs)
    say(f"Adapting it to them ({epochs} epochs on other renderings; temperature and validation PCK live) ...")
    run = out / f"run-{_start_digest()}"
    after = _predict(_adapt(run, epochs, listener), pairs)
    results = {"before": _score(before), "after": _score(after)}
    for name, result in results.items():
        say(f"PCK@0.1 {name} adaptation: {result.per_image[0.1]:.1f}")
    sections += [_comparison(results), _matches(pairs, before, after), _curves(run)]
    return write_page(out / "report.html", sections)


def _predict(model: Trained, pairs: Sequence[Pair]) -> list[Prediction]:
    return Evaluator(ImageEncoder(model.network, find_protocol(PROTOCOL))).predict(pairs)


def _score(predictions: Sequence[Prediction]) -> Score:
    return score(predictions, find_protocol(PROTOCOL), dataset_info("scenes").threshold)


def _start_digest() -> str:
    """Names the model that is adapted: the result of another one must not be taken for its own."""
    return sha256(find_trained(QUICK))[:8]


def _adapt(folder: Path, epochs: int, listener: Listener | None) -> Trained:
    """Fine-tune the last block of the quick packaged model on training renderings; an earlier result is taken again."""
    design = Card.read(find_trained(QUICK)).design
    kind = {"backbone": design.backbone, "head": design.head}
    config = Config().updated({**ADAPTATION, **kind, "start": QUICK, "epochs": epochs})
    Trainer(config, folder, resume=True, listener=listener).run()
    return Trained.open(folder)


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


def _comparison(results: dict[str, Score]) -> Section:
    alphas = list(results["before"].per_image)
    rows = [["", *(f"PCK@{alpha}" for alpha in alphas), "temperature"]]
    for name, result in results.items():
        temperature = result.temperature
        values = [f"{result.per_image[alpha]:.1f}" for alpha in alphas]
        rows.append([f"{name} adaptation", *values, f"{temperature.mean:.4f} ± {temperature.std:.4f}"])
    text = (
        "The packaged ResNet-50 learned on photographs; these are rendered animals, vehicles, chairs and "
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
