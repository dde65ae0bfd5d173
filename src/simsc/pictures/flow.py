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
from simsc.pictures.flow_colors import chart, draw_strokes, draw_wheel, tint
from simsc.pictures.heatmaps import heat_panel
from simsc.pictures.panels import fit_panel
from simsc.pictures.ramps import direction_colors
from simsc.pictures.resample import pixel_grid, resize_map
from simsc.pictures.sheet import contact_sheet
from simsc.pictures.warp import checkerboard, transfer_colors, warp_source

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
