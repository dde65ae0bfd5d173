"""The markers that every picture shares, and the legends that explain them at the lower edge of a sheet."""

from __future__ import annotations

import numpy as np
from PIL import Image

from simsc.pictures.canvas import Canvas, Place, text_width
from simsc.pictures.ramps import ramp_colors
from simsc.pictures.style import CORRECT, INCORRECT, INK, MARGIN, MUTED, PAPER, Color

FOOTER = 26
"""Height of a legend in pixels."""


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


def _line(canvas: Canvas) -> float:
    return canvas.image.height - MARGIN - 7.0


def _write(canvas: Canvas, x: float, y: float, text: str) -> float:
    """Write a word of the legend; where the next one starts."""
    canvas.text((x, y), text, anchor="lm")
    return x + text_width(text) + 18
