"""Many pictures on one sheet, and writing a picture to disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from simsc.errors import DataError
from simsc.files import atomic_path
from simsc.pictures.canvas import Canvas, shorten
from simsc.pictures.layout import LINE
from simsc.pictures.style import GAP, MARGIN, TITLE_SIZE

Picture = Image.Image | np.ndarray


def contact_sheet(
    images: Sequence[Picture], columns: int, captions: Sequence[str] | None = None, *, title: str | None = None
) -> Image.Image:
    """Pictures row by row in equal cells, each above its caption.

    Args:
        images: PIL images or ``(H, W, 3)`` uint8 arrays, shown at their own size.
        columns: pictures per row.
        captions: one per picture; too long ones are cut.
        title: written above.

    >>> contact_sheet([np.zeros((40, 60, 3), np.uint8)] * 3, columns=2).size
    (158, 118)
    """
    if not images or columns < 1:
        raise DataError(f"contact sheet: needs a picture and a column at least, got {len(images)} and {columns}")
    if captions is not None and len(captions) != len(images):
        raise DataError(f"contact sheet: {len(captions)} captions for {len(images)} pictures")
    pictures = [image if isinstance(image, Image.Image) else Image.fromarray(image) for image in images]
    columns = min(columns, len(pictures))
    width, height = max(each.width for each in pictures), max(each.height for each in pictures)
    pitch_x, pitch_y = width + GAP, height + GAP + (LINE + 4 if captions else 0)
    top = MARGIN + (round(TITLE_SIZE * 1.6) if title else 0)
    rows = -(-len(pictures) // columns)
    canvas = Canvas((top + rows * pitch_y - GAP + MARGIN, 2 * MARGIN + columns * pitch_x - GAP))
    if title:
        canvas.text((MARGIN, MARGIN), shorten(title, canvas.image.width - 2 * MARGIN, TITLE_SIZE), TITLE_SIZE)
    for index, picture in enumerate(pictures):
        left, upper = MARGIN + index % columns * pitch_x, top + index // columns * pitch_y
        canvas.paste(
            picture.convert("RGB"), left + (width - picture.width) // 2, upper + (height - picture.height) // 2
        )
        if captions:
            canvas.text((left + width / 2, upper + height + 5), shorten(captions[index], width), anchor="ma")
    return canvas.image


def save_picture(image: Image.Image, path: str | Path) -> Path:
    """Write a picture atomically; the file name's ending says the format."""
    path = Path(path)
    if path.suffix.lower() not in Image.registered_extensions():
        raise DataError(f"{path}: '{path.suffix}' is no image format; use for example .png or .jpg")
    with atomic_path(path) as temporary:
        image.save(temporary)
    return path
