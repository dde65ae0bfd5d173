"""Score maps laid over the image they belong to, before and after the temperature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from simsc.coordinates import Convention
from simsc.errors import DataError
from simsc.pictures.canvas import FOOTER, Canvas, draw_disc, draw_ring, draw_scale
from simsc.pictures.resample import resize_map
from simsc.pictures.sheet import Panel, check_points, fit_panel, side_by_side
from simsc.pictures.style import SKY, ramp_colors

# Share of the ramp's colour at the lowest and at the highest value; the rest is the image in grey: enough to see where
# one is, while a peak keeps its full colour.
_HEAT = (0.7, 0.95)


def draw_heatmap(
    target: np.ndarray,
    scores: np.ndarray,
    *,
    point: np.ndarray | None = None,
    truth: np.ndarray | None = None,
    convention: Convention = "center",
    limits: tuple[float, float] | None = None,
    height: int = 360,
) -> Image.Image:
    """A map over an image: dark is low, pale yellow is high.

    Args:
        target: ``(H, W, 3)`` uint8.
        scores: ``(h, w)`` scores or probabilities, one per cell.
        point: ``(2,)`` xy in pixels of ``target``: where the match was found, a blue disc.
        truth: ``(2,)`` xy: where it should be, a ring.
        convention: how cells relate to pixels, see :mod:`simsc.coordinates`.
        limits: values of the darkest and the palest colour; by default 0 (or the lowest negative score) and the peak,
            so that an even map looks even.
        height: of the picture.

    >>> draw_heatmap(np.zeros((64, 64, 3), np.uint8), np.eye(4), height=120).size
    (120, 120)
    """
    panel = heat_panel(target, scores, convention, limits, height)
    canvas = Canvas(panel.size)
    canvas.paste(panel.image, 0, 0)
    _mark(canvas, panel, point, truth, height)
    return canvas.image


def draw_temperature_comparison(
    source: np.ndarray,
    target: np.ndarray,
    point: np.ndarray,
    scores: np.ndarray,
    betas: Sequence[float],
    *,
    truth: np.ndarray | None = None,
    convention: Convention = "center",
    title: str | None = None,
    height: int = 240,
) -> Image.Image:
    """One query's probabilities over the target at several temperatures: the over-smoothness picture of the paper.

    Args:
        source, target: ``(H, W, 3)`` uint8.
        point: ``(2,)`` xy of the query in pixels of ``source``.
        scores: ``(h, w)`` cosine similarity of the query with every cell, before any temperature.
        betas: temperatures to compare, for example ``[1.0, 0.03]``.
        truth: ``(2,)`` xy of the query's counterpart in ``target``.
        convention, title, height: as elsewhere.
    """
    maps = [temperature_softmax(scores, beta) for beta in betas]
    panels = [fit_panel(source, height), *(heat_panel(target, each, convention, None, height) for each in maps)]
    captions = [["source and query"], *(_caption(beta, each) for beta, each in zip(betas, maps, strict=True))]
    canvas, placed = side_by_side(panels, title=title, captions=captions, footer=FOOTER + 6)
    _mark(canvas, placed[0], point, None, height)
    for panel in placed[1:]:
        _mark(canvas, panel, None, truth, height)
    draw_scale(canvas, "probability  0", "", "peak of each map")
    return canvas.image


def temperature_softmax(scores: np.ndarray, beta: float) -> np.ndarray:
    """Probabilities ``(h, w)`` of scores ``(h, w)`` at a temperature: softmax(scores / beta).

    >>> temperature_softmax(np.zeros((2, 2)), 0.03).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    if not beta > 0:
        raise DataError(f"temperature {beta}: must be greater than 0")
    logits = np.asarray(scores, dtype=np.float64) / beta
    weights = np.exp(logits - logits.max())
    result: np.ndarray = weights / weights.sum()
    return result


def heat_panel(
    target: np.ndarray,
    scores: np.ndarray,
    convention: Convention = "center",
    limits: tuple[float, float] | None = None,
    height: int = 360,
) -> Panel:
    """The map over the grey image, without markers."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.size == 0 or not np.isfinite(values).all():
        raise DataError(f"scores: expected a map of shape (h, w) of finite numbers, got shape {values.shape}")
    panel = fit_panel(target, height)
    low, high = limits or (min(values.min(), 0.0), values.max())
    level = (resize_map(values, panel.size, panel.original, convention) - low) / max(high - low, 1e-12)
    grey = np.asarray(panel.image.convert("L"), dtype=np.float64)[..., None]
    share = _HEAT[0] + (_HEAT[1] - _HEAT[0]) * np.clip(level, 0, 1)[..., None]
    mixed = share * ramp_colors(level) + (1 - share) * grey
    return Panel(Image.fromarray(np.rint(mixed).astype(np.uint8)), panel.original)


def _caption(beta: float, probabilities: np.ndarray) -> list[str]:
    """Temperature, peak, and over how many cells the probability is spread (the exponential of its entropy)."""
    positive = probabilities[probabilities > 0]
    spread = float(np.exp(-(positive * np.log(positive)).sum()))
    return [
        f"temperature {beta:.3g}",
        f"peak {probabilities.max():.2g}",
        f"spread over {spread:.0f} of {probabilities.size} cells",
    ]


def _mark(canvas: Canvas, panel: Panel, point: np.ndarray | None, truth: np.ndarray | None, height: int) -> None:
    radius = max(height / 55, 3.0)
    if truth is not None:
        draw_ring(canvas, panel.places(check_points(np.atleast_2d(truth), "truth", 1))[0], radius * 1.5)
    if point is not None:
        draw_disc(canvas, panel.places(check_points(np.atleast_2d(point), "point", 1))[0], radius, SKY)
