"""What all readers build: images with their sizes, points that lie in them, pairs with unique names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from simsc.coordinates import Size
from simsc.data.records import ImageRef
from simsc.errors import DataError
from simsc.images import image_size

OFFICIAL_SLACK = 1.0
"""How far outside an image, in longer sides, a point of a published data set may lie: its counts are kept."""
OWN_SLACK = 0.1
"""The same for users' own files, where a far point most often means another resolution or swapped x and y."""


class ImageFolder:
    """Image references of one data set; each file's header is read once.

    Args:
        root: folder the keys are relative to.
        keep_suffix: whether keys keep ``.jpg``; users' own folders may hold both ``a.jpg`` and ``a.png``.
    """

    def __init__(self, root: Path, keep_suffix: bool = False) -> None:
        self.root, self.keep_suffix = root, keep_suffix
        self._sizes: dict[Path, Size] = {}

    def size(self, path: Path) -> Size:
        """``(height, width)`` of the file as shown."""
        if path not in self._sizes:
            self._sizes[path] = image_size(path)
        return self._sizes[path]

    def ref(self, path: Path, size: Size | None = None) -> ImageRef:
        """Reference with a stable key: the path below ``root``.

        ``size`` is given where the annotation states it, so that the header need not be read.
        """
        try:
            relative = path.relative_to(self.root)
        except ValueError:
            relative = path
        key = relative if self.keep_suffix else relative.with_suffix("")
        return ImageRef(key.as_posix(), size or self.size(path), path)


def inside(points: np.ndarray, size: Size, where: str, slack: float = OFFICIAL_SLACK) -> np.ndarray:
    """The points ``(n, 2)``; refuses one that is not finite or lies far outside an image of ``size``.

    Annotations lie a hair outside now and then; those points are kept as they are. Only a point more than
    ``slack`` times the longer side away from the image is refused.
    """
    limit = np.array([size[1] - 1, size[0] - 1], dtype=np.float64)
    outside = np.maximum(-points, points - limit).max(axis=1, initial=0)
    bad = ~(outside <= slack * max(size))  # a NaN compares false, so it is bad as well
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        x, y = points[index]
        raise DataError(f"{where}: point {index} at x={x:g}, y={y:g} is not in the image of {size[1]}x{size[0]} pixels")
    return points


def unique_names() -> Callable[[str], str]:
    """A function that numbers repeated names: ``a``, ``a#2``, ``a#3``.

    >>> unique = unique_names()
    >>> [unique("a"), unique("b"), unique("a")]
    ['a', 'b', 'a#2']
    """
    seen: Counter[str] = Counter()

    def unique(name: str) -> str:
        seen[name] += 1
        return name if seen[name] == 1 else f"{name}#{seen[name]}"

    return unique
