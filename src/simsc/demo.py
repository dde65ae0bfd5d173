"""What ``simsc demo`` does: match, warp and label photographs, adapt the model to them, and report on one HTML page."""

from __future__ import annotations

import base64
import html
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from simsc.data.records import Annotated, ImageRef, Pair, pair_of
from simsc.data.sources import load_objects
from simsc.files import sha256, write_text
from simsc.matcher import Matcher, load
from simsc.models import DEFAULT
from simsc.models.card import find_trained
from simsc.training.adapt import Adapted, adapt_objects, hold_out
from simsc.training.listener import Listener
from simsc.training.run_folder import write_curves
from simsc.transfer.instances import Instance, Moved
from simsc.transfer.move import Labels, Mover

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
"""The photographs of a clone; they are not in the wheel."""
ROLES = ("donkey", "zebra", "horse")
"""Matched and warped onto, matched with and warped, labelled."""
SCENES = 8
"""Rendered scenes of each category that stand in for photographs where there are none."""
MODEL = DEFAULT
STEPS = 40
"""Of the adaptation: a quarter of what ``simsc adapt`` takes, for a demonstration should not bore."""
RIGHT = 0.1
"""A match is right within this part of the larger side of the thing's box."""
Say = Callable[[str], None]
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 1.5rem auto; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.2rem; font-size: 1.25rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid #d5dae2; text-align: right; }
th:first-child, td:first-child { padding-left: 0; text-align: left; }
.pictures { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); }
.pictures.small { grid-template-columns: repeat(auto-fill, minmax(min(46%, 240px), 1fr)); }
.pictures.single { grid-template-columns: 1fr; }
figure { margin: 0; } figure img { width: 100%; height: auto; border-radius: 6px; } figcaption { color: #59647a; }
@media (prefers-color-scheme: dark) {
  body { background: #14181f; color: #e4e8ef; } th, td { border-color: #3a4454; } figcaption { color: #9aa6b8; }
}
"""


@dataclass(frozen=True)
class Section:
    """A part of the page: a title, a sentence, and a table or captioned pictures, which may be small ones."""

    title: str
    text: str
    table: list[list[str]] = field(default_factory=list)
    pictures: list[tuple[str, Image.Image]] = field(default_factory=list)
    small: bool = False

    def to_html(self) -> str:
        """The section as HTML, pictures included."""
        parts = [f"<h2>{html.escape(self.title)}</h2>", f"<p>{html.escape(self.text)}</p>"]
        if self.table:
            parts.append(_table(self.table))
        if self.pictures:
            kind = " small" if self.small else " single" if len(self.pictures) == 1 else ""
            parts.append(f'<div class="pictures{kind}">{"".join(_figure(*item) for item in self.pictures)}</div>')
        return "\n".join(parts)


def write_page(path: Path, sections: list[Section]) -> Path:
    """Write the report atomically."""
    body = "\n".join(section.to_html() for section in sections)
    about = (
        "Given two pictures of the same kind of thing, SimSC finds for a point in one the point that means the same in "
        "the other, and says how sure it is. All of this page was computed on this machine, just now."
    )
    write_text(
        path,
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>SimSC demonstration</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>SimSC: the same part in another picture</h1>\n<p>{about}</p>\n{body}\n</body></html>\n",
    )
    return path


def _table(rows: list[list[str]]) -> str:
    head, *body = rows
    cells = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


def _figure(caption: str, picture: Image.Image) -> str:
    stream = io.BytesIO()
    picture.convert("RGB").save(stream, "JPEG", quality=90)
    data = base64.b64encode(stream.getvalue()).decode()
    note = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f'<figure><img alt="{html.escape(caption or "picture")}" src="data:image/jpeg;base64,{data}">{note}</figure>'


def run_demo(
    out: Path,
    source: Path | None = None,
    target: Path | None = None,
    epochs: int = 4,
    say: Say = print,
    listener: Listener | None = None,
) -> Path:
    """Run the demonstration and return the path of its report, which is first written before the adaptation."""
    matcher, sections = load(MODEL), []
    if source and target:
        say(f"Matching {source} and {target} ...")
        sections.append(_own_images(matcher, source, target))
    objects, kind = find_objects()
    first, second, labelled = _roles(objects)
    others = [one for one in objects if one.category == labelled.category and one is not labelled]
    say(f"Matching, warping and labelling {kind}s with {MODEL} ...")
    sections += [
        _matches(matcher, first, [second, labelled]),
        _warp(matcher, second, first),
        _transfer(matcher, labelled, others, kind),
    ]
    report = write_page(out / "report.html", sections)
    say(f"Adapting it to {len(objects)} labelled {kind}s; {report} shows the rest already ...")
    run = (
        out / f"run-{kind}-{epochs}-{sha256(find_trained(MODEL))[:8]}"
    )  # another start's result is not taken for its own
    adapted = adapt_objects(
        objects, run, start=MODEL, epochs=epochs, steps=STEPS, resume=True, listener=listener, name=f"the {kind}s"
    )
    say(f"PCK@0.1 on what was held out: {adapted.before['0.1']:.1f} before, {adapted.after['0.1']:.1f} after")
    pairs = hold_out(objects, 0).validation
    sections += [_comparison(adapted, kind), _before_and_after(matcher, load(run), pairs), _curves(run)]
    return write_page(report, sections)


def find_objects() -> tuple[list[Annotated], str]:
    """Labelled things to show, and what their pictures are: a clone's photographs, or rendered scenes."""
    if (labels := PHOTOS / "keypoints.json").is_file():
        return load_objects("coco", labels, "test"), "photograph"
    scenes = load_objects("scenes", None, "test")
    kinds = [[one for one in scenes if one.category == category][:SCENES] for category in ("quadruped", "bird")]
    return [one for members in kinds for one in members], "rendered scene"


def _roles(objects: Sequence[Annotated]) -> list[Annotated]:
    """The things of :data:`ROLES`, or the first ones where there are none of these names."""
    names = {_name(one): one for one in objects}
    return [names.get(role, objects[place]) for place, role in enumerate(ROLES)]


def _name(one: Annotated) -> str:
    return one.image.path.stem if one.image.path else f"{one.category} {one.name}"


def _own_images(matcher: Matcher, source: Path, target: Path) -> Section:
    from simsc.images import read_image
    from simsc.pictures import draw_matches

    pixels = read_image(source)
    height, width = pixels.shape[:2]
    x, y = np.meshgrid((np.arange(6) + 0.5) * width / 6 - 0.5, (np.arange(6) + 0.5) * height / 6 - 0.5)
    grid = np.stack([x.ravel(), y.ravel()], axis=1)
    found = matcher.match(pixels, target, grid)
    # A grid has points in the background too; the surest third is what a person wants to see.
    sure = found.confidence >= np.quantile(found.confidence, 2 / 3)
    picture = draw_matches(
        pixels, read_image(target), grid[sure], found.points[sure], confidence=found.confidence[sure]
    )
    return Section("Your images", "The surest third of a 6 x 6 grid of points.", pictures=[("", picture)])


def _matches(matcher: Matcher, source: Annotated, targets: Sequence[Annotated]) -> Section:
    text = (
        f"Points of one ({_name(source)}) found in others. Blue discs are right: within a tenth of the thing's larger "
        "side of where a person placed them. A vermillion cross is not, and a thin line leads from it to the truth."
    )
    pairs = [pair_of(source, target) for target in targets]
    drawn = [_draw(pair, found) for pair, found in zip(pairs, _found(matcher, pairs), strict=True)]
    pictures = [(f"{_name(source)} to {_name(target)}", each) for target, each in zip(targets, drawn, strict=True)]
    return Section("The same points in another picture", text, pictures=pictures)


def _warp(matcher: Matcher, source: Annotated, target: Annotated) -> Section:
    from simsc.pictures import draw_flow

    one, other = source.image.load(), target.image.load()
    flow = matcher.dense(one, other, smooth=1.5)
    panels = ("source", "target", "warped", "confidence")
    picture = draw_flow(one, other, flow.points, confidence=flow.confidence, panels=panels, columns=2)
    text = f"Every pixel matched: the {_name(source)} laid onto the {_name(target)}, and how far that can be trusted."
    return Section("Every pixel", text, pictures=[("", picture)])


def _transfer(matcher: Matcher, labelled: Annotated, others: Sequence[Annotated], kind: str) -> Section:
    """Labels of one thing carried over to others, each shown with what was found."""
    names = [name for name, present in zip(labelled.point_names, labelled.present, strict=True) if present]
    places = {name: (float(x), float(y)) for name, (x, y) in zip(names, labelled.points[labelled.present], strict=True)}
    x0, y0, x1, y1 = (0, 0, 0, 0) if labelled.box is None else labelled.box.tolist()
    instance = Instance(labelled.category, places, None if labelled.box is None else (x0, y0, x1, y1))
    mover = Mover(matcher, [Labels(matcher.encode(labelled.image.load()), [instance])])
    pictures = [(f"{_name(labelled)}, labelled by hand", _labels(labelled, Moved.certain(instance)))]
    statuses: Counter[str] = Counter()
    right = known = 0
    for one in others:
        (moved,) = mover.move(matcher.encode(one.image.load()))
        pictures.append((_name(one), _labels(one, moved)))
        statuses.update(moved.keypoint_status.values())
        fine = [_is_right(one, name, place) for name, place in moved.instance.keypoints.items()]
        right, known = right + sum(each is True for each in fine), known + sum(each is not None for each in fine)
    text = (
        f"One {kind} labelled by hand, {len(others)} others labelled by it: {statuses['sure']} points sure (green), "
        f"{statuses['unsure']} unsure (orange, hollow), {statuses['none']} without a counterpart (left out), and a box "
        f"where it is trusted. Of {known} found points that a person placed too, {right} are right. A person looks at "
        "the unsure ones (simsc review)."
    )
    return Section("One labelled, all labelled", text, pictures=pictures, small=True)


def _is_right(one: Annotated, name: str, place: tuple[float, float]) -> bool | None:
    """Whether a transferred point is right; None where a person did not place it."""
    index = list(one.point_names).index(name)
    if not one.present[index]:
        return None
    return bool(np.hypot(*(np.array(place) - one.points[index])) <= RIGHT * _extent(one.box, one.image))


def _extent(box: np.ndarray | None, image: ImageRef) -> float:
    return float(max(image.size) if box is None else max(box[2] - box[0], box[3] - box[1]))


def _labels(one: Annotated, moved: Moved, height: int = 240) -> Image.Image:
    """A picture with the points and the box found in it."""
    from simsc.pictures.canvas import Canvas, draw_status
    from simsc.pictures.sheet import fit_panel
    from simsc.pictures.style import STATUS

    panel = fit_panel(one.image.load(), height)
    canvas = Canvas(panel.size)
    canvas.paste(panel.image, 0, 0)
    if moved.instance.box is not None:
        x0, y0, x1, y1 = moved.instance.box
        corners = panel.places(np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)]))
        for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            canvas.segment(start, end, 2, STATUS["sure"])
    points = moved.instance.keypoints
    for name, place in zip(points, panel.places(np.array(list(points.values())).reshape(-1, 2)), strict=True):
        draw_status(canvas, place, 5, moved.keypoint_status[name])
    return canvas.image


def _comparison(adapted: Adapted, kind: str) -> Section:
    rows = [["points within", "before", "after"]]
    for alpha, before in adapted.before.items():
        rows.append([f"{float(alpha):.0%} of the larger side", f"{before:.1f} %", f"{adapted.after[alpha]:.1f} %"])
    text = (
        f"The last block of the network learned from {adapted.photographs} {kind}s (simsc adapt). Held out: "
        f"{adapted.held_out}; they are measured here and chose how long to train, so expect less elsewhere."
    )
    return Section("Adapted to these pictures", text, table=rows)


def _before_and_after(before: Matcher, after: Matcher, pairs: Sequence[Pair]) -> Section:
    """For each target the pair that gained most, where one gained; the table before it counts all."""
    best: dict[str, tuple[float, list[tuple[str, Image.Image]]]] = {}
    for pair, first, second in zip(pairs, _found(before, pairs), _found(after, pairs), strict=True):
        gain = float(_correct(pair, second).mean() - _correct(pair, first).mean())
        if gain > best.get(pair.target.key, (0.0, []))[0]:
            best[pair.target.key] = gain, [("before", _draw(pair, first)), ("after", _draw(pair, second))]
    text = (
        "Of each held-out picture the partner that gained most, where one gained; the table above counts all of them."
    )
    return Section("Before and after", text, pictures=[each for _, pictures in best.values() for each in pictures])


def _found(matcher: Matcher, pairs: Sequence[Pair]) -> list[np.ndarray]:
    """Where the points of each pair are found; an image is encoded once."""
    images = {ref.key: ref for pair in pairs for ref in (pair.source, pair.target)}
    encoded = dict(zip(images, matcher.encode_many([ref.load() for ref in images.values()]), strict=True))
    return [
        matcher.match(encoded[pair.source.key], encoded[pair.target.key], pair.source_points).points for pair in pairs
    ]


def _correct(pair: Pair, found: np.ndarray) -> np.ndarray:
    distance = np.linalg.norm(found - pair.target_points, axis=1)
    correct: np.ndarray = distance <= RIGHT * _extent(pair.target_box, pair.target)
    return correct


def _draw(pair: Pair, found: np.ndarray) -> Image.Image:
    from simsc.pictures import draw_matches

    return draw_matches(
        pair.source.load(),
        pair.target.load(),
        pair.source_points,
        found,
        truth=pair.target_points,
        correct=_correct(pair, found),
        height=260,
    )


def _curves(run: Path) -> Section:
    path = write_curves(run)
    text = "Loss, both temperatures and their product, and PCK on what was held out, while adapting."
    return Section("Learning curves", text, pictures=[("", Image.open(path))] if path else [])
