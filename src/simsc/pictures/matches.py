"""Matches between two images, side by side: coloured lines, numbered points, right and wrong told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from simsc.coordinates import Size
from simsc.errors import DataError, unknown_name
from simsc.pictures.canvas import (
    FOOTER,
    Canvas,
    draw_cross,
    draw_disc,
    draw_names,
    draw_ring,
    draw_scale,
    draw_status,
    draw_statuses,
    draw_verdicts,
)
from simsc.pictures.sheet import check_points, fit_panel, side_by_side
from simsc.pictures.style import CORRECT, INCORRECT, INK, MATCHES, PAPER, STATUS, Color, ramp_colors

_DIRECTIONS = np.array([(1, -1), (-1, -1), (1, 1), (-1, 1), (1, 0), (-1, 0), (0, -1), (0, 1)], dtype=np.float64)


@dataclass(frozen=True)
class _Look:
    """How one match is drawn; ``correct`` and ``status`` are ``None`` where they are not known."""

    color: Color
    correct: bool | None
    opacity: float
    status: str | None = None

    @property
    def doubtful(self) -> bool:
        """Drawn with a broken line."""
        return self.correct is False or self.status == "unsure"


def draw_matches(
    source: np.ndarray,
    target: np.ndarray,
    source_points: np.ndarray,
    target_points: np.ndarray,
    *,
    truth: np.ndarray | None = None,
    correct: np.ndarray | None = None,
    confidence: np.ndarray | None = None,
    status: np.ndarray | None = None,
    names: Sequence[str] = (),
    numbers: bool = True,
    lines: bool = True,
    alpha: float = 0.1,
    title: str | None = None,
    height: int = 360,
) -> Image.Image:
    """Draw where points of ``source`` lie in ``target``.

    A correct match is a blue disc with a full line; an incorrect one a vermillion cross with a broken line, and a thin
    line leads from it to a ring at the truth. Where the truth is not known, a status is shown: sure is a green disc
    with a full line, unsure an orange hollow one with a broken line, none a grey cross in the source alone. Where
    nothing is known, every match has its own colour, or that of its confidence.

    Args:
        source, target: ``(H, W, 3)`` uint8, of any two sizes.
        source_points, target_points: ``(n, 2)`` xy in pixels of each image; ``n`` may be 0. Points outside are drawn
            on the border.
        truth: ``(n, 2)`` where the points really are in ``target``.
        correct: ``(n,)`` bool; by default, with ``truth`` given, a point within ``alpha`` times the larger side of
            ``target`` is correct.
        confidence: ``(n,)`` in ``[0, 1]``: colour of a match, or how clear its line is where right and wrong, or a
            status, are known.
        status: ``(n,)`` of ``sure``, ``unsure`` and ``none``; not together with what says right and wrong.
        names: ``n`` names, listed below by their numbers; an empty one is left out, and ``()`` lists none.
        numbers, lines: whether to number the points and to connect them.
        title: written above.
        height: of both images as shown.

    >>> blank = np.full((40, 40, 3), 200, np.uint8)
    >>> draw_matches(blank, blank, [[5, 5]], [[30, 9]], height=100).size
    (238, 124)
    """
    start = check_points(source_points, "source_points")
    end = check_points(target_points, "target_points", len(start))
    real = None if truth is None else check_points(truth, "truth", len(start))
    rule = ""
    if correct is None and real is not None:
        rule = f"correct: within {alpha:g} of the larger side"
        correct = np.linalg.norm(end - real, axis=1) <= alpha * max(np.shape(target)[:2])
    looks = _looks(len(start), correct, confidence, status)
    if names and len(names) != len(start):
        raise DataError(f"names: expected {len(start)}, one per source point, got {len(names)}")
    legend = correct is not None or confidence is not None or status is not None
    canvas, (left, right) = side_by_side(
        [fit_panel(source, height), fit_panel(target, height)], title=title, footer=FOOTER if legend else 0,
        least_width=300 if legend else 0,
    )  # fmt: skip
    places = left.places(start), right.places(end)
    radius = max(height / 65, 3.0)
    if lines:
        _draw_lines(canvas, *places, looks, radius)
    if real is not None:
        _draw_errors(canvas, places[1], right.places(real), looks, radius)
    _draw_markers(canvas, *places, looks, radius)
    if numbers and correct is None and status is not None:
        found = [number for number, look in enumerate(looks) if look.status != "none"]
        _draw_numbers(canvas, (places[0], places[1][found]), None, radius, found)
    elif numbers:
        hidden = None if real is None else right.places(real)[~np.asarray(correct, dtype=bool)]
        _draw_numbers(canvas, places, hidden, radius)
    if correct is not None:
        draw_verdicts(canvas, correct, real is not None, rule)
    elif status is not None:
        draw_statuses(canvas, {name: int(np.sum(np.asarray(status) == name)) for name in STATUS})
    elif confidence is not None:
        draw_scale(canvas, "confidence", "0", "1")
    if names:
        draw_names(canvas, names)
    return canvas.image


def _looks(
    count: int, correct: np.ndarray | None, confidence: np.ndarray | None, status: np.ndarray | None
) -> list[_Look]:
    for name, values in (("correct", correct), ("confidence", confidence), ("status", status)):
        if values is not None and np.shape(values) != (count,):
            raise DataError(f"{name}: expected {count} values, one per source point, got shape {np.shape(values)}")
    opacity = [1.0] * count if confidence is None else (0.25 + 0.75 * np.clip(confidence, 0, 1)).tolist()
    if correct is not None:
        return [
            _Look(CORRECT if good else INCORRECT, bool(good), clear)
            for good, clear in zip(correct, opacity, strict=True)
        ]
    if status is not None:
        if unknown := set(map(str, status)) - set(STATUS):
            raise DataError(unknown_name("status", min(unknown), STATUS))
        return [_Look(STATUS[name], None, clear, name) for name, clear in zip(map(str, status), opacity, strict=True)]
    if confidence is not None:
        colors = np.rint(ramp_colors(np.asarray(confidence))).astype(int).tolist()
        return [_Look((red, green, blue), None, 1.0) for red, green, blue in colors]
    return [_Look(MATCHES[i % len(MATCHES)], None, 1.0) for i in range(count)]


def _draw_lines(canvas: Canvas, starts: np.ndarray, ends: np.ndarray, looks: list[_Look], radius: float) -> None:
    width = max(radius / 3, 1.2)
    for start, end, look in zip(starts, ends, looks, strict=True):
        if look.status == "none":
            continue
        stroke = canvas.dashes if look.doubtful else canvas.segment
        stroke(start, end, width + 1.6, PAPER, 0.55 * look.opacity)  # a casing: visible on dark and on light
        stroke(start, end, width, look.color, look.opacity)


def _draw_errors(canvas: Canvas, ends: np.ndarray, truth: np.ndarray, looks: list[_Look], radius: float) -> None:
    for end, real, look in zip(ends, truth, looks, strict=True):
        if look.correct is False:
            rim = real + (end - real) * min(radius / max(float(np.linalg.norm(end - real)), 1e-9), 1)
            canvas.segment(end, rim, 3.2, PAPER, 0.8)
            canvas.segment(end, rim, 1.6, INK)
            draw_ring(canvas, real, radius)


def _draw_markers(canvas: Canvas, starts: np.ndarray, ends: np.ndarray, looks: list[_Look], radius: float) -> None:
    for start, end, look in zip(starts, ends, looks, strict=True):
        if look.status is not None:
            draw_status(canvas, start, radius, look.status)
            if look.status != "none":
                draw_status(canvas, end, radius, look.status)
            continue
        draw_disc(canvas, start, radius, look.color)
        if look.correct is False:
            draw_cross(canvas, end, radius * 1.35, look.color)
        else:
            draw_disc(canvas, end, radius, look.color)


def _draw_numbers(
    canvas: Canvas,
    places: tuple[np.ndarray, np.ndarray],
    truth: np.ndarray | None,
    radius: float,
    found: Sequence[int] | None = None,
) -> None:
    """Numbers beside the markers of both images; ``found`` are the points that the second one shows, if not all."""
    size = max(round(radius * 2.5), 11)
    sheet = canvas.image.height, canvas.image.width
    shown = range(len(places[0])), range(len(places[1])) if found is None else found
    for markers, obstacles, indices in zip(places, (None, truth), shown, strict=True):
        free = number_places(markers, radius + size * 0.75, sheet, obstacles)
        for index, place in zip(indices, free, strict=True):
            canvas.text(place, str(index + 1), size, PAPER, "mm", halo=INK)


def number_places(markers: np.ndarray, distance: float, sheet: Size, obstacles: np.ndarray | None = None) -> np.ndarray:
    """Centres ``(n, 2)`` of the numbers of markers ``(n, 2)``.

    Each number tries eight directions around its marker, upper right first, and takes the one farthest from what is
    already there; directions that leave the sheet come last.

    >>> number_places(np.array([[50.0, 50.0]]), 10.0, (100, 100)).round().tolist()
    [[58.0, 42.0]]
    """
    steps = _DIRECTIONS / np.linalg.norm(_DIRECTIONS, axis=1, keepdims=True) * distance * 1.1
    taken = np.concatenate([markers, obstacles]) if obstacles is not None else markers
    places = np.empty((0, 2))
    for index, marker in enumerate(markers):
        others = np.concatenate([np.delete(taken, index, axis=0), places])
        places = np.concatenate([places, [_freest(marker + steps, others, distance, sheet)]])
    return places


def _freest(candidates: np.ndarray, others: np.ndarray, distance: float, sheet: Size) -> np.ndarray:
    crowding = np.zeros(len(candidates))
    if len(others):
        gaps = np.linalg.norm(candidates[:, None] - others[None], axis=-1)
        crowding = np.clip(1.6 * distance - gaps, 0, None).sum(axis=1)
    inside = (candidates > distance / 2) & (candidates < np.array([sheet[1], sheet[0]]) - distance / 2)
    result: np.ndarray = candidates[np.argmin(crowding + np.where(inside.all(axis=1), 0, 1e6))]
    return result
