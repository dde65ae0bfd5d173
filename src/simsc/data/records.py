"""The record types that every data set is read into: an image, and an annotated pair of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from simsc.coordinates import Size
from simsc.errors import DataError


@dataclass(frozen=True)
class ImageRef:
    """An image that can be loaded when needed.

    Attributes:
        key: identity of the pixels, unique within a data set and different for a flipped copy; caches use it.
        size: ``(height, width)`` of the image as shown (EXIF orientation applied).
        path: the file, for images on disk.
        flip: whether the image is mirrored horizontally on loading.
        render: draws the image as ``(H, W, 3)`` uint8, for images made on demand; with a path, from that file.
    """

    key: str
    size: Size
    path: Path | None = None
    flip: bool = False
    render: Callable[[], np.ndarray] | None = field(default=None, compare=False, repr=False)

    def load(self) -> np.ndarray:
        """The pixels as ``(H, W, 3)`` uint8 RGB, flipped if ``flip``."""
        from simsc.images import read_image

        if self.render is not None:
            pixels = self.render()
        elif self.path is not None:
            pixels = read_image(self.path)
        else:
            raise DataError(f"image '{self.key}' has neither a file nor a renderer")
        if pixels.shape[:2] != tuple(self.size):
            raise DataError(
                f"{self.path or self.key}: the image is {pixels.shape[1]}x{pixels.shape[0]} "
                f"but its annotation says {self.size[1]}x{self.size[0]}"
            )
        return np.ascontiguousarray(pixels[:, ::-1]) if self.flip else pixels


@dataclass(frozen=True)
class Pair:
    """Two images of the same kind of thing and the points that correspond.

    Points are xy, 0-based, in the pixels of each image as shown (after ``flip``).

    Attributes:
        name: unique within its split.
        category: what both images show.
        source, target: the images.
        source_points, target_points: ``(n, 2)`` float64; row i of one corresponds to row i of the other.
        source_box, target_box: ``(4,)`` x0, y0, x1, y1 of the object, if annotated.
        point_names: ``n`` names or ids of the points, if annotated.
    """

    name: str
    category: str
    source: ImageRef
    target: ImageRef
    source_points: np.ndarray
    target_points: np.ndarray
    source_box: np.ndarray | None = None
    target_box: np.ndarray | None = None
    point_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for side in ("source", "target"):
            points = np.asarray(getattr(self, f"{side}_points"), dtype=np.float64)
            object.__setattr__(self, f"{side}_points", points)
            box = getattr(self, f"{side}_box")
            if box is not None:
                object.__setattr__(self, f"{side}_box", _checked_box(box, f"pair '{self.name}': {side}_box"))
            _check_points(points, f"pair '{self.name}': {side}_points")
        if len(self.source_points) != len(self.target_points):
            raise DataError(
                f"pair '{self.name}': {len(self.source_points)} source points but "
                f"{len(self.target_points)} target points; they must correspond one to one"
            )
        if self.point_names and len(self.point_names) != len(self.source_points):
            raise DataError(
                f"pair '{self.name}': {len(self.point_names)} point names for {len(self.source_points)} points"
            )

    def swapped(self) -> Pair:
        """The same pair in the other direction."""
        return Pair(
            name=f"{self.name}~swapped",
            category=self.category,
            source=self.target,
            target=self.source,
            source_points=self.target_points,
            target_points=self.source_points,
            source_box=self.target_box,
            target_box=self.source_box,
            point_names=self.point_names,
        )


def count_points(pairs: Sequence[Pair]) -> int:
    """Total number of corresponding points."""
    return sum(len(pair.source_points) for pair in pairs)


def _check_points(points: np.ndarray, where: str) -> None:
    if points.ndim != 2 or points.shape[1] != 2:
        raise DataError(f"{where}: expected shape (n, 2), got {points.shape}")
    if len(points) == 0:
        raise DataError(f"{where}: no points; a pair needs at least one corresponding point")
    if not np.isfinite(points).all():
        raise DataError(f"{where}: coordinates must be finite numbers, got {points[~np.isfinite(points)][0]}")


def _checked_box(box: np.ndarray, where: str) -> np.ndarray:
    box = np.asarray(box, dtype=np.float64)
    if box.shape != (4,) or not np.isfinite(box).all() or box[2] < box[0] or box[3] < box[1]:
        raise DataError(f"{where}: expected finite x0 <= x1, y0 <= y1, got {box.tolist()}")
    return box
