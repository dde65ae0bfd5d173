"""The records of every data set: an image, an object with named points in it, and a pair of such objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from simsc.coordinates import Size, flip_boxes, flip_points
from simsc.errors import DataError

_SIDES = {"L": "R", "Left": "Right", "R": "L", "Right": "Left"}


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
class View:
    """How an object is seen, as far as its annotation says.

    Attributes:
        azimuth: number of the sector it is seen from, 0 to 7 in SPair-71k.
        pose: the annotators' word for it, for example ``Left``.
        truncated: whether a part lies outside the image.
        occluded: whether something stands before it.
    """

    azimuth: int | None = None
    pose: str | None = None
    truncated: bool | None = None
    occluded: bool | None = None


@dataclass(frozen=True)
class Annotated:
    """An object in an image with its named points: the unit of data, of which pairs are formed.

    Attributes:
        name: unique within its category.
        category: what it is; key-points of a category are numbered alike in all its objects.
        image: where it is.
        points: ``(K, 2)`` float64 xy, one row per key-point of the category; what an absent row holds is undefined.
        present: ``(K,)`` bool, which rows are annotated.
        box: ``(4,)`` x0, y0, x1, y1, if annotated.
        point_names: ``K`` names of the points; their numbers where they have none.
        view: how it is seen, if annotated.
    """

    name: str
    category: str
    image: ImageRef
    points: np.ndarray
    present: np.ndarray
    box: np.ndarray | None = None
    point_names: tuple[str, ...] = ()
    view: View | None = None

    def sides_swapped(self) -> Annotated | None:
        """The same object with the names of left and right points exchanged, as its mirror image has them.

        A point whose twin is no key-point of the category is then absent. None where points have no names.
        """
        place = {name: row for row, name in enumerate(self.point_names)}
        if not place or all(name.isdigit() for name in place):
            return None
        rows = np.array([place.get(twin(name) or name, -1) for name in self.point_names])
        return replace(self, points=self.points[rows], present=self.present[rows] & (rows >= 0))

    def mirrored(self) -> Annotated:
        """The same object seen in a mirror; its image carries ``|flip`` in its key."""
        width = self.image.size[1]
        return replace(
            self,
            image=replace(self.image, key=f"{self.image.key}|flip", flip=not self.image.flip),
            points=flip_points(self.points, width),
            box=None if self.box is None else flip_boxes(self.box, width),
        )


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
        source_view, target_view: how each object is seen, if annotated.
        source_alone: ``(m, 2)`` points of the source that the target does not have, where that is known.
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
    source_view: View | None = None
    target_view: View | None = None
    source_alone: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))

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
        """The same pair in the other direction; which points of its new source are alone is not known."""
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
            source_view=self.target_view,
            target_view=self.source_view,
        )


def twin(name: str) -> str | None:
    """The name of the same part on the other side; None for a part that has no side.

    >>> twin("L_WingTip"), twin("Sail_Right"), twin("NoseTip")
    ('R_WingTip', 'Sail_Left', None)
    """
    words = name.split("_")
    return "_".join(_SIDES.get(word, word) for word in words) if set(words) & set(_SIDES) else None


def common_points(source: Annotated, target: Annotated) -> np.ndarray:
    """Numbers ``(n,)`` of the key-points that two objects of a category both have."""
    count = min(len(source.present), len(target.present))
    found: np.ndarray = np.flatnonzero(source.present[:count] & target.present[:count])
    return found


def pair_of(source: Annotated, target: Annotated, name: str | None = None) -> Pair:
    """The pair of two objects of a category, with the key-points that both have."""
    common = common_points(source, target)
    names = source.point_names
    return Pair(
        name=name or f"{source.category}/{source.name}-{target.name}",
        category=source.category,
        source=source.image,
        target=target.image,
        source_points=source.points[common],
        target_points=target.points[common],
        source_box=source.box,
        target_box=target.box,
        point_names=tuple(names[index] if names else str(index) for index in common.tolist()),
        source_view=source.view,
        target_view=target.view,
        source_alone=source.points[np.setdiff1d(np.flatnonzero(source.present), common)],
    )


def count_points(pairs: Sequence[Pair]) -> int:
    """Total number of corresponding points."""
    return sum(len(pair.source_points) for pair in pairs)


def unique_images(pairs: Sequence[Pair]) -> list[ImageRef]:
    """The images of some pairs, each once."""
    return list({ref.key: ref for pair in pairs for ref in (pair.source, pair.target)}.values())


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
