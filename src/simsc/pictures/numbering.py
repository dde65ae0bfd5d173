"""Numbers beside markers, placed where they cover as few other markers and numbers as possible."""

from __future__ import annotations

import numpy as np

from simsc.coordinates import Size

_DIRECTIONS = np.array([(1, -1), (-1, -1), (1, 1), (-1, 1), (1, 0), (-1, 0), (0, -1), (0, 1)], dtype=np.float64)


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
    return candidates[np.argmin(crowding + np.where(inside.all(axis=1), 0, 1e6))]
