"""Draw the first pictures: points of one photograph found in others, and one warped onto another.

Run from the project's folder: ``python docs/images/photos.py``; a model's name or path may be given. A match within a
tenth of the animal's larger side of the hand-placed point is a disc; another one is a cross, with a line to the truth.
"""

from __future__ import annotations

import colorsys
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import simsc
from simsc.data.records import Annotated
from simsc.data.sources import load_objects
from simsc.images import read_image
from simsc.pictures import draw_flow, save_picture

FOLDER = Path(__file__).parent
PHOTOS = FOLDER.parents[1] / "examples" / "photos"
SOURCE, TARGETS = "donkey", ("zebra", "horse", "cow", "lion")
POINTS = (
    *("nose", "eye", "ear", "withers", "back", "tail_root", "belly"),
    *("near_front_knee", "near_front_hoof", "near_hind_hock", "near_hind_hoof"),
)
WARPED = ("zebra", "donkey")
HEIGHT, GAP = 300, 10


def main(model: str | None) -> None:
    """Match the points and write ``photos.png``."""
    animals = {Path(one.image.key).stem: one for one in load_objects("coco", PHOTOS / "keypoints.json", "test")}
    source = animals[SOURCE]
    asked = [place for place, name in enumerate(source.point_names) if source.present[place] and name in POINTS]
    matcher = simsc.load(model)
    panels = [_panel(source, asked, source.points[asked], np.ones(len(asked), bool))]
    right = total = 0
    for name in TARGETS:
        target = animals[name]
        known = [place for place in asked if target.present[place]]
        found = matcher.match(source.image.path, target.image.path, source.points[known]).points
        limit = 0.1 * max(target.box[2] - target.box[0], target.box[3] - target.box[1])
        good = np.linalg.norm(found - target.points[known], axis=1) <= limit
        right, total = right + int(good.sum()), total + len(good)
        panels.append(_panel(target, known, found, good))
    print(f"{right} of {total} matches are right")
    save_picture(_row(panels), FOLDER / "photos.png")
    _draw_flow(matcher, *(read_image(PHOTOS / f"{name}.jpg") for name in WARPED))


def _draw_flow(matcher: simsc.Matcher, source: np.ndarray, target: np.ndarray) -> None:
    flow = matcher.dense(source, target, smooth=1.5)
    panels = ("source", "target", "warped", "flow", "confidence")
    picture = draw_flow(source, target, flow.points, confidence=flow.confidence, panels=panels, columns=5)
    save_picture(picture, FOLDER / "flow.png")


def _panel(one: Annotated, places: list[int], points: np.ndarray, good: np.ndarray) -> Image.Image:
    picture = Image.fromarray(read_image(one.image.path))
    scale = HEIGHT * 2 / picture.height  # drawn at twice the size, then reduced: smooth edges
    picture = picture.resize((round(picture.width * scale), HEIGHT * 2), Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(picture)
    for place, point, fine in zip(places, points, good, strict=True):
        colour = tuple(round(255 * part) for part in colorsys.hsv_to_rgb(place * 0.381966 % 1, 0.85, 0.95))
        x, y = (point + 0.5) * scale
        if fine:
            pen.ellipse([x - 13, y - 13, x + 13, y + 13], fill=colour, outline="white", width=4)
        else:
            true_x, true_y = (one.points[place] + 0.5) * scale
            pen.line([x, y, true_x, true_y], fill=colour, width=4)
            for turn in (-1, 1):
                pen.line([x - 12, y - 12 * turn, x + 12, y + 12 * turn], fill=colour, width=8)
    return picture.resize((picture.width // 2, HEIGHT), Image.Resampling.LANCZOS)


def _row(panels: list[Image.Image]) -> Image.Image:
    width = sum(panel.width for panel in panels) + GAP * (len(panels) + 1)
    sheet = Image.new("RGB", (width, HEIGHT), "white")
    left = 0
    for number, panel in enumerate(panels):
        sheet.paste(panel, (left, 0))
        left += panel.width + (3 * GAP if number == 0 else GAP)
    return sheet.crop((0, 0, left - GAP, HEIGHT))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
