"""What all readers build: images with their sizes, sides with checked points, pairs with unique names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from simsc.coordinates import Size, flip_boxes, flip_points
from simsc.data.records import ImageRef, Pair
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


def check_inside(points: np.ndarray, size: Size, where: str, slack: float = OFFICIAL_SLACK) -> None:
    """Refuse points ``(n, 2)`` that are not finite or lie far outside an image of ``size``.

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


@dataclass(frozen=True)
class Side:
    """One image of a pair with its points ``(n, 2)`` and its box."""

    image: ImageRef
    points: np.ndarray
    box: np.ndarray | None = None

    def mirrored(self) -> Side:
        """The same side seen in a mirror; its image carries ``|flip`` in its key."""
        width = self.image.size[1]
        return Side(
            image=replace(self.image, key=f"{self.image.key}|flip", flip=True),
            points=flip_points(self.points, width),
            box=None if self.box is None else flip_boxes(self.box, width),
        )


def make_pair(
    name: str,
    category: str,
    source: Side,
    target: Side,
    point_names: tuple[str, ...] = (),
    slack: float = OFFICIAL_SLACK,
) -> Pair:
    """A pair whose points lie in its images (see :func:`check_inside`)."""
    check_inside(source.points, source.image.size, f"pair '{name}': source_points in {source.image.path}", slack)
    check_inside(target.points, target.image.size, f"pair '{name}': target_points in {target.image.path}", slack)
    return Pair(
        name=name,
        category=category,
        source=source.image,
        target=target.image,
        source_points=source.points,
        target_points=target.points,
        source_box=source.box,
        target_box=target.box,
        point_names=point_names,
    )


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
