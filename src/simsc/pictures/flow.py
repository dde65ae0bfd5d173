"""Dense correspondence made visible: the source warped onto the target, colours carried over, and the flow.

``positions (h, w, 2)`` is the dense match everywhere here: for a regular grid over the *target* (its pixels, or the
cells of a feature map), the xy in pixels of the *source* that each place comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image

from simsc.coordinates import Convention, resize_points
from simsc.errors import DataError, unknown_name
from simsc.pictures.canvas import Canvas
from simsc.pictures.heatmaps import heat_panel
from simsc.pictures.resample import checkerboard, pixel_grid, resize_map, transfer_colors, warp_source
from simsc.pictures.sheet import Panel, contact_sheet, fit_panel
from simsc.pictures.style import INK, PAPER, SHADE, direction_colors, place_colors

CAPTIONS = {
    "source": "source",
    "target": "target",
    "warped": "source warped onto the target",
    "checkerboard": "target and warped source in turns",
    "confidence": "confidence, dark to bright: 0 to 1",
    "recolored": "target in the source's colours",
    "places": "places of the source",
    "carried": "where they lie in the target",
    "flow": "flow, target to source",
}


def draw_flow(
    source: np.ndarray,
    target: np.ndarray,
    positions: np.ndarray,
    *,
    confidence: np.ndarray | None = None,
    convention: Convention = "center",
    panels: Sequence[str] | None = None,
    columns: int | None = None,
    title: str | None = None,
    height: int = 240,
) -> Image.Image:
    """A sheet of views of one dense match.

    Args:
        source, target: ``(H, W, 3)`` uint8.
        positions: ``(h, w, 2)`` xy in source pixels for a grid over the target.
        confidence: ``(h, w)`` in ``[0, 1]`` over the target.
        convention: how the grid's cells relate to pixels of the target.
        panels: names out of :data:`CAPTIONS`; by default all for which there is data.
        columns: views per row; by default a full rectangle where there is one.
        title, height: of the sheet.
    """
    views = FlowViews(source, target, positions, confidence, convention, height)
    names = (
        list(panels) if panels is not None else [name for name in CAPTIONS if name != "confidence" or views.confident]
    )
    images = [views.draw(name) for name in names]
    return contact_sheet(
        images, columns or (3 if len(names) % 3 == 0 else 4), [CAPTIONS[name] for name in names], title=title
    )


class FlowViews:
    """The views of one dense match, all at the size the target is shown at; see :data:`CAPTIONS`."""

    def __init__(
        self,
        source: np.ndarray,
        target: np.ndarray,
        positions: np.ndarray,
        confidence: np.ndarray | None,
        convention: Convention,
        height: int,
    ) -> None:
        positions = np.asarray(positions, dtype=np.float64)
        if positions.ndim != 3 or positions.shape[2] != 2 or not np.isfinite(positions).all():
            raise DataError(
                f"positions: expected finite xy of shape (h, w, 2), got an array of shape {positions.shape}"
            )
        self.confident = confidence is not None
        self._confidence = confidence
        self._convention: Convention = convention
        self._target_pixels = target
        self._source, self._target = fit_panel(source, height), fit_panel(target, height)
        shown = resize_map(positions, self._target.size, self._target.original, convention)
        self._positions = resize_points(shown, self._source.original, self._source.size)

    def draw(self, name: str) -> Image.Image:
        """The view of that name."""
        views: dict[str, Callable[[], Image.Image]] = {
            "source": lambda: self._source.image,
            "target": lambda: self._target.image,
            "warped": lambda: Image.fromarray(self._warped()),
            "checkerboard": lambda: Image.fromarray(checkerboard(np.asarray(self._target.image), self._warped())),
            "recolored": lambda: Image.fromarray(transfer_colors(np.asarray(self._target.image), self._warped())),
            "places": self._draw_places,
            "carried": self._draw_carried,
            "flow": self._draw_flow,
            "confidence": self._draw_confidence,
        }
        if name not in views:
            raise DataError(unknown_name("flow panel", name, views))
        return views[name]()

    def _warped(self) -> np.ndarray:
        return warp_source(np.asarray(self._source.image), self._positions)

    def _draw_places(self) -> Image.Image:
        return tint(self._source, chart(pixel_grid(self._source.size), self._source))

    def _draw_carried(self) -> Image.Image:
        return tint(self._target, chart(self._positions, self._source))

    def _draw_flow(self) -> Image.Image:
        # Both frames are scaled to the unit square first: images of different size are no motion.
        here = pixel_grid(self._target.size)
        moves = resize_points(self._positions, self._source.size, self._target.size) - here
        longest = float(np.quantile(np.linalg.norm(moves, axis=-1), 0.98))
        canvas = Canvas(self._target.size)
        canvas.paste(Image.fromarray(np.rint(direction_colors(moves, longest)).astype(np.uint8)), 0, 0)
        draw_strokes(canvas, moves, longest)
        draw_wheel(canvas)
        return canvas.image

    def _draw_confidence(self) -> Image.Image:
        if self._confidence is None:
            raise DataError("flow panel 'confidence': no confidence was given")
        height = self._target.size[0]
        return heat_panel(self._target_pixels, self._confidence, self._convention, (0.0, 1.0), height).image


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
