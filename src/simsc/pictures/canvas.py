"""A sheet to draw on: shapes with smooth edges at exact sub-pixel places, text, markers and legends.

Each shape is painted from its signed distance, one pixel of transition at its edge. This keeps a marker's centre where
it belongs to a fraction of a pixel, which integer drawing does not. Places are xy with pixel centres at integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from simsc.coordinates import Size
from simsc.pictures.style import (
    CAPTION_SIZE,
    CORRECT,
    GAP,
    INCORRECT,
    INK,
    LINE,
    MARGIN,
    MUTED,
    PAPER,
    STATUS,
    Color,
    font,
    legible,
    ramp_colors,
)

Place = tuple[float, float] | np.ndarray
Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]
Anchor = Literal["la", "ma", "lm", "mm"]
FOOTER = 26
"""Height of a legend in pixels."""


class Canvas:
    """A sheet of ``size (height, width)``; :attr:`image` is the picture so far."""

    def __init__(self, size: Size, color: Color = PAPER) -> None:
        self.image = Image.new("RGB", (size[1], size[0]), color)

    def paste(self, picture: Image.Image, left: int, top: int) -> None:
        """Put ``picture`` with its upper left pixel at ``(left, top)``."""
        self.image.paste(picture, (left, top))

    def lengthen(self, height: int) -> None:
        """Add an empty strip at the bottom."""
        self.image = ImageOps.expand(self.image, (0, 0, 0, height), PAPER)

    def disc(self, center: Place, radius: float, color: Color, opacity: float = 1.0) -> None:
        """A filled circle."""
        x, y = center

        def distance(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
            return np.hypot(xs - x, ys - y) - radius

        self._fill((x - radius, y - radius, x + radius, y + radius), distance, color, opacity)

    def ring(self, center: Place, radius: float, width: float, color: Color, opacity: float = 1.0) -> None:
        """A circle line of ``width`` around ``radius``."""
        x, y = center
        outer = radius + width / 2

        def distance(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
            return np.abs(np.hypot(xs - x, ys - y) - radius) - width / 2

        self._fill((x - outer, y - outer, x + outer, y + outer), distance, color, opacity)

    def segment(self, start: Place, end: Place, width: float, color: Color, opacity: float = 1.0) -> None:
        """A straight line with round ends."""
        (ax, ay), (bx, by) = start, end
        dx, dy = bx - ax, by - ay
        length = max(dx * dx + dy * dy, 1e-12)

        def distance(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
            along = np.clip(((xs - ax) * dx + (ys - ay) * dy) / length, 0, 1)
            return np.hypot(xs - ax - along * dx, ys - ay - along * dy) - width / 2

        half = width / 2
        box = (min(ax, bx) - half, min(ay, by) - half, max(ax, bx) + half, max(ay, by) + half)
        self._fill(box, distance, color, opacity)

    def dashes(self, start: Place, end: Place, width: float, color: Color, opacity: float = 1.0) -> None:
        """A broken line."""
        a, b = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
        count = max(int(np.hypot(*(b - a)) / (6 * width)), 1)
        for i in range(count):
            self.segment(a + (b - a) * i / count, a + (b - a) * (i + 0.55) / count, width, color, opacity)

    def cross(self, center: Place, radius: float, width: float, color: Color, opacity: float = 1.0) -> None:
        """Two crossing diagonal strokes."""
        x, y = center
        reach = radius / np.sqrt(2)
        for slope in (-1, 1):
            self.segment((x - reach, y - slope * reach), (x + reach, y + slope * reach), width, color, opacity)

    def text(
        self,
        place: Place,
        text: str,
        size: int = CAPTION_SIZE,
        color: Color = INK,
        anchor: Anchor = "la",
        halo: Color | None = None,
    ) -> None:
        """Write ``text``; ``halo`` outlines it so that it reads on any photograph."""
        draw = ImageDraw.Draw(self.image)
        outline = max(size // 7, 1) if halo else 0
        draw.text(
            (float(place[0]), float(place[1])), legible(text), color, font(size), anchor,
            stroke_width=outline, stroke_fill=halo,
        )  # fmt: skip

    def _fill(self, box: tuple[float, float, float, float], distance: Distance, color: Color, opacity: float) -> None:
        """Blend ``color`` in where ``distance`` (negative inside) is small, touching only the pixels of ``box``."""
        left, top = max(int(np.floor(box[0])) - 1, 0), max(int(np.floor(box[1])) - 1, 0)
        right = min(int(np.ceil(box[2])) + 2, self.image.width)
        bottom = min(int(np.ceil(box[3])) + 2, self.image.height)
        if right <= left or bottom <= top:
            return
        xs, ys = np.arange(left, right)[None, :], np.arange(top, bottom)[:, None]
        coverage = np.clip(0.5 - distance(xs, ys), 0, 1)[..., None] * opacity
        below = np.asarray(self.image.crop((left, top, right, bottom)), dtype=np.float64)
        blended = below + coverage * (np.asarray(color, dtype=np.float64) - below)
        self.image.paste(Image.fromarray(np.rint(blended).astype(np.uint8)), (left, top))


def text_width(text: str, size: int = CAPTION_SIZE) -> int:
    """Width of written ``text`` in pixels."""
    return int(np.ceil(font(size).getlength(legible(text))))


def shorten(text: str, width: int, size: int = CAPTION_SIZE) -> str:
    """``text``, cut with an ellipsis if it is wider than ``width`` pixels.

    >>> shorten("a very long caption", 60)
    'a very...'
    """
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "...", size) > width:
        text = text[:-1]
    return text.rstrip() + "..."


def draw_disc(canvas: Canvas, place: Place, radius: float, color: Color) -> None:
    """The marker of a point: a disc in a white rim."""
    canvas.disc(place, radius + 1.6, PAPER)
    canvas.disc(place, radius, color)


def draw_cross(canvas: Canvas, place: Place, radius: float, color: Color) -> None:
    """The marker of a wrong point: a cross in a white rim."""
    canvas.cross(place, radius, radius / 1.8 + 3, PAPER)
    canvas.cross(place, radius, radius / 1.8, color)


def draw_ring(canvas: Canvas, place: Place, radius: float) -> None:
    """The marker of the truth: an open ring in a white rim."""
    canvas.ring(place, radius, 4.2, PAPER)
    canvas.ring(place, radius, 2.2, INK)


def draw_circle(canvas: Canvas, place: Place, radius: float, color: Color) -> None:
    """The marker of a doubtful point: a hollow disc in a white rim."""
    canvas.ring(place, radius, radius / 2 + 2.6, PAPER)
    canvas.ring(place, radius, radius / 2, color)


def draw_status(canvas: Canvas, place: Place, radius: float, status: str) -> None:
    """The marker of a status: sure a disc, unsure a hollow one, none a cross, each in its colour."""
    marker = {"sure": draw_disc, "unsure": draw_circle, "none": draw_cross}[status]
    marker(canvas, place, radius, STATUS[status])


def draw_statuses(canvas: Canvas, counts: Mapping[str, int]) -> None:
    """How many matches have each status, beside its marker."""
    x, y = float(MARGIN), _line(canvas)
    for status, count in counts.items():
        draw_status(canvas, (x + 6, y), 5, status)
        x = _write(canvas, x + 18, y, f"{count} {status}")


def draw_verdicts(canvas: Canvas, correct: np.ndarray, has_truth: bool, rule: str = "") -> None:
    """How many of the matches are right, beside the markers of right and wrong, and the rule if there is room."""
    x, y = float(MARGIN), _line(canvas)
    right = int(np.sum(correct))
    draw_disc(canvas, (x + 6, y), 5, CORRECT)
    x = _write(canvas, x + 18, y, f"{right} correct")
    draw_cross(canvas, (x + 6, y), 6, INCORRECT)
    x = _write(canvas, x + 18, y, f"{len(correct) - right} incorrect")
    if has_truth and right < len(correct):
        draw_ring(canvas, (x + 6, y), 5)
        x = _write(canvas, x + 18, y, "truth")
    if rule and x + text_width(rule) <= canvas.image.width - MARGIN:
        canvas.text((canvas.image.width - MARGIN - text_width(rule), y), rule, color=MUTED, anchor="lm")


def draw_scale(canvas: Canvas, name: str, low: str, high: str) -> None:
    """A strip of the ramp with its two ends labelled."""
    y = _line(canvas)
    x = _write(canvas, MARGIN, y, f"{name}  {low}") - 10
    strip = np.rint(ramp_colors(np.tile(np.linspace(0, 1, 120), (12, 1)))).astype(np.uint8)
    canvas.paste(Image.fromarray(strip), round(x), round(y - 6))
    _write(canvas, x + 128, y, high)


def draw_names(canvas: Canvas, names: Sequence[str]) -> None:
    """A list of numbers and names, in columns on a strip that is added at the bottom; an empty name is left out."""
    called = [f"{number}  {name}" for number, name in enumerate(names, start=1) if name]
    if not called:
        return
    room = canvas.image.width - 2 * MARGIN
    column = min(max(map(text_width, called)) + GAP, room)
    rows = -(-len(called) // (room // column))
    top = canvas.image.height
    canvas.lengthen(rows * LINE + MARGIN)
    for index, text in enumerate(called):
        place = MARGIN + index // rows * column, top + index % rows * LINE
        canvas.text(place, shorten(text, column))


def _line(canvas: Canvas) -> float:
    return canvas.image.height - MARGIN - 7.0


def _write(canvas: Canvas, x: float, y: float, text: str) -> float:
    """Write a word of the legend; where the next one starts."""
    canvas.text((x, y), text, anchor="lm")
    return x + text_width(text) + 18
