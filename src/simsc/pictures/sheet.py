"""Photographs scaled into their places on a sheet, side by side or in rows, and writing the sheet to disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from simsc.coordinates import Size, resize_points
from simsc.errors import DataError
from simsc.files import atomic_path
from simsc.images import check_pixels
from simsc.pictures.canvas import Canvas, shorten, text_width
from simsc.pictures.style import GAP, LINE, MARGIN, TITLE_SIZE

WIDEST = 3  # a panel is at most this many times as wide as high; longer strips are scaled down further
NARROWEST = 24  # a panel's column, so that a strip one pixel wide still has room for its marker
Picture = Image.Image | np.ndarray


@dataclass(frozen=True)
class Panel:
    """A scaled image at a place of a sheet.

    Attributes:
        image: the scaled photograph.
        original: ``(height, width)`` of the pixels the points refer to.
        left, top: where its upper left pixel lies on the sheet.
    """

    image: Image.Image
    original: Size
    left: int = 0
    top: int = 0

    @property
    def size(self) -> Size:
        """``(height, width)`` as shown."""
        return self.image.height, self.image.width

    def moved(self, left: int, top: int) -> Panel:
        """The same panel at another place."""
        return Panel(self.image, self.original, left, top)

    def places(self, points: np.ndarray) -> np.ndarray:
        """Places ``(n, 2)`` on the sheet of points ``(n, 2)`` in original pixels; outside ones lie on the border."""
        shown = resize_points(np.asarray(points, dtype=np.float64), self.original, self.size)
        limit = np.array([self.image.width - 1, self.image.height - 1])
        result: np.ndarray = shown.clip(0, limit) + np.array([self.left, self.top])
        return result


def fit_panel(pixels: np.ndarray, height: int) -> Panel:
    """Scale ``(H, W, 3)`` uint8 pixels to ``height``, or less for a very wide strip.

    >>> fit_panel(np.zeros((100, 50, 3), np.uint8), 200).size
    (200, 100)
    """
    pixels = np.asarray(pixels)
    check_pixels(pixels)
    size = shown_size(pixels.shape[:2], height)
    image = Image.fromarray(pixels).resize((size[1], size[0]), Image.Resampling.BICUBIC)
    return Panel(image, (pixels.shape[0], pixels.shape[1]))


def shown_size(original: tuple[int, ...], height: int) -> Size:
    """``(height, width)`` at which an image of ``original`` size is shown.

    >>> shown_size((50, 10000), 300)
    (4, 900)
    """
    scale = min(height / original[0], WIDEST * height / original[1])
    return max(round(original[0] * scale), 1), max(round(original[1] * scale), 1)


def check_points(points: np.ndarray, name: str, count: int | None = None) -> np.ndarray:
    """Points as ``(n, 2)`` float64, or an error that says what is wrong; an empty list is ``(0, 2)``."""
    points = np.asarray(points, dtype=np.float64)
    if points.size == 0:
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise DataError(f"{name}: expected finite points of shape (n, 2), got an array of shape {points.shape}")
    if count is not None and len(points) != count:
        raise DataError(f"{name}: expected {count} point(s), got {len(points)}")
    return points


def side_by_side(
    panels: Sequence[Panel],
    *,
    title: str | None = None,
    captions: Sequence[Sequence[str]] = (),
    footer: int = 0,
    least_width: int = 0,
) -> tuple[Canvas, list[Panel]]:
    """A sheet with the panels in a row, centred in their columns.

    Args:
        panels: what to show.
        title: written above, if given.
        captions: lines of text below each panel; a panel without any gets ``()``.
        footer: height in pixels to leave free at the bottom.
        least_width: the sheet is at least so wide.

    Returns:
        The sheet, with panels, title and captions on it, and the panels at their places.
    """
    columns = [max(panel.size[1], NARROWEST, *_widths(captions, i)) for i, panel in enumerate(panels)]
    row = max(panel.size[0] for panel in panels)
    top = MARGIN + (round(TITLE_SIZE * 1.6) if title else 0)
    below = LINE * max((len(lines) for lines in captions), default=0)
    content = sum(columns) + GAP * (len(panels) - 1)
    width = max(content, least_width) + 2 * MARGIN
    canvas = Canvas((top + row + (below and below + 6) + footer + MARGIN, width))
    if title:
        canvas.text((MARGIN, MARGIN), shorten(title, width - 2 * MARGIN, TITLE_SIZE), TITLE_SIZE)
    left, placed = MARGIN + (width - 2 * MARGIN - content) // 2, []
    for i, (panel, column) in enumerate(zip(panels, columns, strict=True)):
        here = panel.moved(left + (column - panel.size[1]) // 2, top + (row - panel.size[0]) // 2)
        canvas.paste(here.image, here.left, here.top)
        for number, line in enumerate(captions[i] if i < len(captions) else ()):
            canvas.text((left + column / 2, top + row + 5 + LINE * number), line, anchor="ma")
        placed.append(here)
        left += column + GAP
    return canvas, placed


def _widths(captions: Sequence[Sequence[str]], index: int) -> list[int]:
    return [text_width(line) for line in captions[index]] if index < len(captions) else []


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
