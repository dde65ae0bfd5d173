"""Random numbers that are the same on every machine: seeds from SHA-256, values from uniform draws only."""

from __future__ import annotations

import colorsys
import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Colour = tuple[float, float, float]


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
