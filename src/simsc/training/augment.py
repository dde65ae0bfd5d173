"""Optional augmentation: mirrored, cropped, zoomed, turned and recoloured copies of images, with their points.

In one epoch all pairs see the same copy of an image, or its mirror image, so that pairs of a batch share its forward
pass as they do without augmentation; an image that an epoch shows again comes as another copy. With ``variants`` the
copies come from a finite set, and trunk outputs can be cached.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from simsc.coordinates import Size, flip_points
from simsc.data.records import ImageRef
from simsc.training.config import Config
from simsc.training.zoom import Zoom, random_zoom

_SHOWINGS_APART = 1_000_003  # more than there are epochs: copies of another showing are drawn as those of a far epoch


@dataclass(frozen=True)
class _Copy:
    """A copy of an image.

    ``corner`` is where its first pixel lay in the (mirrored) original before it was zoomed.
    """

    image: ImageRef
    corner: np.ndarray
    zoom: Zoom


class Augmenter:
    """Random copies of images, decided by the seed, the epoch and the image alone.

    Args:
        views: all images with points ``(n, 2)`` in them; every one of the points stays in the picture.
        config: strengths of mirroring, cropping, zooming, turning and recolouring, and the number of variants.
    """

    def __init__(self, views: Iterable[tuple[ImageRef, np.ndarray]], config: Config) -> None:
        self.config = config
        self._images: dict[str, ImageRef] = {}
        self._extents: dict[str, np.ndarray] = {}
        for ref, points in views:
            self._note(ref, points)

    def __call__(
        self, ref: ImageRef, points: np.ndarray, epoch: int, mirrored: bool, showing: int = 0
    ) -> tuple[ImageRef, np.ndarray]:
        """An image and points in it as they look in an epoch that has shown the image ``showing`` times before."""
        copy = self._copy(ref, self._number(ref, epoch, showing), mirrored)
        moved = flip_points(points, ref.size[1]) if mirrored else points
        return copy.image, copy.zoom.points(moved - copy.corner)

    def mirrors(self, epoch: int, *names: str) -> bool:
        """Whether the images of a pair or group are mirrored: all of them or none, or left would become right."""
        return bool(self._generator(epoch, *names).random() < self.config.flip)

    def copies(self) -> Iterator[ImageRef]:
        """Every copy there can be; only with a finite number of variants."""
        sides = (False, True) if self.config.flip or self.config.flip_alone else (False,)
        for ref in self._images.values():
            for number in range(self.config.variants):
                yield from (self._copy(ref, number, mirrored).image for mirrored in sides)

    def _note(self, ref: ImageRef, points: np.ndarray) -> None:
        """Remember an image and the extent ``[[x0, y0], [x1, y1]]`` of its points."""
        known = self._extents.get(ref.key, points)
        everything = np.concatenate([known, points])
        self._images[ref.key] = ref
        self._extents[ref.key] = np.stack([everything.min(axis=0), everything.max(axis=0)])

    def _number(self, ref: ImageRef, epoch: int, showing: int) -> int:
        again = (f"showing {showing}",) if showing else ()
        if variants := self.config.variants:
            return int(self._generator(epoch, ref.key, *again).integers(variants))
        return epoch + showing * _SHOWINGS_APART

    def _copy(self, ref: ImageRef, number: int, mirrored: bool) -> _Copy:
        generator = self._generator(number, ref.key, "copy")
        extent, size = self._extents[ref.key], ref.size
        if mirrored:
            ref = _derived(ref, "mirror", _mirror)
            extent = flip_points(extent, size[1])[::-1] * [1, 0] + extent * [0, 1]
        box = _crop_box(size, extent, self.config.crop, generator)
        if box != (0, 0, size[1], size[0]):
            ref = _derived(ref, f"crop{box}", partial(_cut, box=box), (box[3] - box[1], box[2] - box[0]))
        zoom = random_zoom(ref.size, extent - box[:2], self.config.zoom, generator, self.config.turn)
        if self.config.zoom or self.config.turn:
            ref = _derived(ref, f"zoom{zoom.tag}", zoom.pixels)
        if self.config.colour:
            factors = 1 + self.config.colour * (2 * generator.random(3) - 1)
            ref = _derived(ref, f"colour{factors.round(4).tolist()}", partial(_recolour, factors=factors))
        return _Copy(ref, np.array(box[:2]), zoom)

    def _generator(self, number: int, *names: str) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, number, *(zlib.crc32(name.encode()) for name in names)])


def _crop_box(
    size: Size, extent: np.ndarray, strength: float, generator: np.random.Generator
) -> tuple[int, int, int, int]:
    """A random part ``x0, y0, x1, y1`` of an image that holds the extent of its points."""
    height, width = size
    cuts = generator.random(4) * strength / 2 * np.array([width, height, width, height])
    low = np.minimum(cuts[:2], np.maximum(extent[0], 0)).astype(int)
    far = np.minimum(cuts[2:], np.maximum(np.array([width, height]) - 1 - extent[1], 0)).astype(int)
    return int(low[0]), int(low[1]), width - int(far[0]), height - int(far[1])


def _derived(ref: ImageRef, tag: str, change: Callable[[np.ndarray], np.ndarray], size: Size | None = None) -> ImageRef:
    """An image made from another one when it is loaded; its key says how, its path what from."""
    return ImageRef(f"{ref.key}|{tag}", size or ref.size, ref.path, render=lambda: change(ref.load()))


def _mirror(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels[:, ::-1])


def _cut(pixels: np.ndarray, box: tuple[int, int, int, int]) -> np.ndarray:
    return np.ascontiguousarray(pixels[box[1] : box[3], box[0] : box[2]])


def _recolour(pixels: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Brightness, contrast and saturation, each multiplied by a factor around 1."""
    image = pixels.astype(np.float32) * factors[0]
    image = (image - image.mean()) * factors[1] + image.mean()
    grey = image.mean(axis=2, keepdims=True)
    image = (image - grey) * factors[2] + grey
    changed: np.ndarray = image.clip(0, 255).astype(np.uint8)
    return changed
