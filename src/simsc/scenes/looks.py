"""Random choices that are the same on every machine, and how surfaces look: colour, gloss and textures."""

from __future__ import annotations

import colorsys
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Colour = tuple[float, float, float]
Pattern = Callable[[np.ndarray], np.ndarray]

DARK: Colour = (0.07, 0.06, 0.07)
WHITE: Colour = (0.96, 0.96, 0.94)


class Draws:
    """A stream of random choices that belongs to a key such as ``("train", "car", 3)``.

    Only ``Generator.random`` is used, whose bits are fixed by PCG64; the other distributions may change between
    versions of NumPy.

    >>> Draws("train", "car", 3).uniform(0, 1) == Draws("train", "car", 3).uniform(0, 1)
    True
    """

    def __init__(self, *key: str | int) -> None:
        digest = hashlib.sha256("/".join(str(part) for part in key).encode()).digest()
        self._generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))

    def uniform(self, low: float, high: float) -> float:
        """A number in ``[low, high)``."""
        return low + (high - low) * float(self._generator.random())

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return float(self._generator.random()) < probability

    def integer(self, count: int) -> int:
        """A number from 0 to ``count - 1``."""
        return int(float(self._generator.random()) * count)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.integer(len(items))]

    def sign(self) -> float:
        """-1 or 1."""
        return -1.0 if self.chance(0.5) else 1.0

    def grid(self, rows: int, columns: int) -> np.ndarray:
        """``(rows, columns)`` float32 numbers in ``[0, 1)``."""
        return self._generator.random((rows, columns)).astype(np.float32)

    def colour(
        self,
        hue: tuple[float, float] = (0.0, 1.0),
        saturation: tuple[float, float] = (0.4, 0.9),
        value: tuple[float, float] = (0.4, 0.9),
    ) -> Colour:
        """A colour (r, g, b in 0..1) from ranges of hue, saturation and value; the hue wraps around."""
        return colorsys.hsv_to_rgb(self.uniform(*hue) % 1.0, self.uniform(*saturation), self.uniform(*value))


@dataclass(frozen=True)
class Look:
    """Surface of a part.

    Attributes:
        colour: r, g, b in 0..1.
        second: colour where the pattern holds.
        pattern: name in :data:`PATTERNS`; ``plain`` for none.
        frequency: repetitions of the pattern per object unit.
        phase: moves the pattern along the part.
        gloss: strength of the highlight, 0 for a dull surface.
    """

    colour: Colour
    second: Colour = DARK
    pattern: str = "plain"
    frequency: float = 6.0
    phase: float = 0.0
    gloss: float = 0.0

    def plain(self) -> Look:
        """The same surface without its pattern."""
        return replace(self, pattern="plain")

    def albedo(self, position: np.ndarray) -> np.ndarray:
        """Colours ``(n, 3)`` at positions ``(n, 3)`` on the part, in object units."""
        colours = np.broadcast_to(np.asarray(self.colour, dtype=np.float32), position.shape)
        if self.pattern == "plain":
            return colours
        where = PATTERNS[self.pattern](position * np.float32(self.frequency) + np.float32(self.phase))
        return np.where(where[:, None], np.asarray(self.second, dtype=np.float32), colours)


def _wave(t: np.ndarray) -> np.ndarray:
    # A triangle wave in 0..1: exact arithmetic, unlike a sine.
    result: np.ndarray = np.abs(t - np.floor(t) - np.float32(0.5)) * np.float32(2)
    return result


def _stripes(p: np.ndarray) -> np.ndarray:
    return _wave(p[:, 0] + np.float32(0.35) * _wave(p[:, 1] * np.float32(0.8))) > 0.56


def _bands(p: np.ndarray) -> np.ndarray:
    return _wave(p[:, 1]) > 0.55


def _spots(p: np.ndarray) -> np.ndarray:
    row = np.floor(p[:, 1])
    x = p[:, 0] + np.float32(0.5) * (row - 2 * np.floor(row / 2))
    dx, dy = x - np.floor(x) - np.float32(0.5), p[:, 1] - row - np.float32(0.5)
    result: np.ndarray = dx * dx + dy * dy < 0.085
    return result


def _patches(p: np.ndarray) -> np.ndarray:
    x, y, z = p[:, 0] * np.float32(0.31), p[:, 1] * np.float32(0.31), p[:, 2] * np.float32(0.31)
    total = _wave(x + y * np.float32(0.6)) + _wave(y * np.float32(1.3) - z * np.float32(0.9) + np.float32(0.2))
    result: np.ndarray = total + _wave(x * np.float32(1.7) - y * np.float32(0.8) + z) > 1.75
    return result


def _belly(p: np.ndarray) -> np.ndarray:
    return p[:, 1] < 0


PATTERNS: dict[str, Pattern] = {
    "stripes": _stripes,
    "bands": _bands,
    "spots": _spots,
    "patches": _patches,
    "belly": _belly,
}


def fur(draws: Draws) -> Look:
    """A coat: natural colour, and often stripes, spots, patches or a pale belly."""
    colour = draws.colour((0.04, 0.11), (0.15, 0.75), (0.35, 0.92))
    pale = draws.chance(0.5)
    second = (
        draws.colour((0.06, 0.12), (0.05, 0.3), (0.85, 1.0))
        if pale
        else draws.colour((0.02, 0.1), (0.3, 0.6), (0.1, 0.22))
    )
    pattern = draws.pick(("plain", "stripes", "spots", "patches", "belly"))
    frequency, phase = draws.uniform(6, 10), draws.uniform(0, 4)
    if pattern == "belly":
        phase = draws.uniform(0.2, 0.6)
    return Look(colour, second, pattern, frequency, phase)
