"""A contact sheet of the scenes: ``python docs/images/scenes.py`` writes ``scenes.png`` beside this file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from simsc.files import atomic_path
from simsc.scenes import CATEGORIES, Scene, render_scene

_MARGIN = 4


def contact_sheet(split: str = "test", *, columns: int = 7, annotated: int = 2, cell: int = 144) -> Image.Image:
    """One row of scenes per category; the last ``annotated`` columns show boxes and key-points.

    Visible points are filled discs, hidden ones are rings.
    """
    side = cell + _MARGIN
    sheet = Image.new("RGB", (columns * side, len(CATEGORIES) * side), "white")
    for row, category in enumerate(CATEGORIES):
        for column in range(columns):
            scene = render_scene(category, column, split=split)
            picture = _annotate(scene) if column >= columns - annotated else Image.fromarray(scene.image)
            picture.thumbnail((cell, cell))
            left, top = (side - picture.width) // 2, (side - picture.height) // 2
            sheet.paste(picture, (column * side + left, row * side + top))
    return sheet


def save_contact_sheet(path: Path) -> None:
    """Write the sheet as a PNG; the lowest bits are dropped, which halves its size and is not seen."""
    pixels = np.asarray(contact_sheet()) & 0b11111000 | 0b100
    with atomic_path(path) as temporary:
        Image.fromarray(pixels).save(temporary, optimize=True)


def _annotate(scene: Scene, radius: float = 4.0) -> Image.Image:
    picture = Image.fromarray(scene.image)
    draw = ImageDraw.Draw(picture)
    draw.rectangle(tuple(scene.box.tolist()), outline=(255, 0, 255), width=2)
    for point, visible in zip(scene.points, scene.visible, strict=True):
        corners = np.concatenate([point - radius, point + radius]).tolist()
        draw.ellipse(tuple(corners), fill=(255, 230, 0) if visible else None, outline=(200, 0, 0), width=1)
    return picture


if __name__ == "__main__":
    save_contact_sheet(Path(__file__).with_suffix(".png"))
