"""Colours of a dense match: a chart of the source's places, and a wheel of directions with strokes over it."""

from __future__ import annotations

import numpy as np
from PIL import Image

from simsc.pictures.canvas import Canvas
from simsc.pictures.panels import Panel
from simsc.pictures.ramps import direction_colors, place_colors
from simsc.pictures.resample import pixel_grid
from simsc.pictures.style import INK, PAPER, SHADE


def chart(positions: np.ndarray, source: Panel) -> np.ndarray:
    """Colours ``(H, W, 3)`` of places of the source, with white lines along eighths of its sides."""
    unit = (positions + 0.5) / np.array([source.size[1], source.size[0]])
    colors = place_colors(unit)
    cells = np.floor(unit * 8)
    edge = np.zeros(unit.shape[:2], dtype=bool)
    edge[:, 1:] |= (cells[:, 1:] != cells[:, :-1]).any(axis=-1)
    edge[1:] |= (cells[1:] != cells[:-1]).any(axis=-1)
    colors[edge] = PAPER
    colors[((unit < 0) | (unit > 1)).any(axis=-1)] = SHADE
    return colors


def tint(panel: Panel, colors: np.ndarray, share: float = 0.7) -> Image.Image:
    """The panel in grey with ``colors (H, W, 3)`` over it."""
    grey = np.asarray(panel.image.convert("L"), dtype=np.float64)[..., None]
    return Image.fromarray(np.rint(share * colors + (1 - share) * grey).astype(np.uint8))


def draw_strokes(canvas: Canvas, moves: np.ndarray, longest: float, spacing: int = 24) -> None:
    """Strokes from a dot towards where each place comes from: ``moves (H, W, 2)``, scaled so as not to touch."""
    scale = 0.8 * spacing / max(longest, 1e-9)
    for y in range(spacing // 2, moves.shape[0], spacing):
        for x in range(spacing // 2, moves.shape[1], spacing):
            step = moves[y, x] * min(scale, 0.8 * spacing / max(float(np.linalg.norm(moves[y, x])), 1e-9))
            canvas.segment((x, y), (x + step[0], y + step[1]), 1.4, INK, 0.8)
            canvas.disc((x, y), 2.2, INK, 0.8)


def draw_wheel(canvas: Canvas, radius: int = 20) -> None:
    """The key of the colours in the lower right corner."""
    side = 2 * radius + 1
    if min(canvas.image.size) < 3 * side:
        return
    vectors = pixel_grid((side, side)) - radius
    wheel = Image.fromarray(np.rint(direction_colors(vectors, radius)).astype(np.uint8))
    left, top = canvas.image.width - side - 8, canvas.image.height - side - 8
    canvas.disc((left + radius, top + radius), radius + 3, PAPER)
    mask = Canvas((side, side), (0, 0, 0))
    mask.disc((radius, radius), radius, PAPER)
    canvas.image.paste(wheel, (left, top), mask.image.convert("L"))
    canvas.ring((left + radius, top + radius), radius, 1.2, INK)
