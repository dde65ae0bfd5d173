"""Optional augmentation: mirrored, recoloured and cropped copies of a pair, with its points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from simsc.coordinates import flip_points
from simsc.data.records import ImageRef, Pair
from simsc.engine.config import Config


def augment_pair(pair: Pair, config: Config, epoch: int, index: int) -> Pair:
    """A random variant of a pair, decided by the seed, the epoch and the pair's index alone."""
    generator = np.random.default_rng([config.seed, epoch, index, 7])
    if config.flip and generator.random() < config.flip:
        pair = _flipped(pair)
    if config.crop:
        pair = _cropped(pair, config.crop, generator)
    if config.colour:
        pair = _recoloured(pair, config.colour, generator)
    return pair


def _flipped(pair: Pair) -> Pair:
    return replace(
        pair,
        source=_derived(pair.source, "mirror", _mirror),
        target=_derived(pair.target, "mirror", _mirror),
        source_points=flip_points(pair.source_points, pair.source.size[1]),
        target_points=flip_points(pair.target_points, pair.target.size[1]),
        source_box=None,
        target_box=None,
    )


def _cropped(pair: Pair, strength: float, generator: np.random.Generator) -> Pair:
    """Each image cropped at random; no key-point is lost."""
    source, source_points = _crop(pair.source, pair.source_points, strength, generator)
    target, target_points = _crop(pair.target, pair.target_points, strength, generator)
    return replace(
        pair,
        source=source,
        target=target,
        source_points=source_points,
        target_points=target_points,
        source_box=None,
        target_box=None,
    )


def _crop(
    ref: ImageRef, points: np.ndarray, strength: float, generator: np.random.Generator
) -> tuple[ImageRef, np.ndarray]:
    height, width = ref.size
    cuts = generator.random(4) * strength / 2 * np.array([width, height, width, height])
    low = np.minimum(cuts[:2], np.maximum(points.min(axis=0), 0)).astype(int)
    far = np.minimum(cuts[2:], np.maximum(np.array([width, height]) - 1 - points.max(axis=0), 0)).astype(int)
    box = (int(low[0]), int(low[1]), width - int(far[0]), height - int(far[1]))
    cropped = _derived(ref, f"crop{box}", partial(_cut, box=box), (box[3] - box[1], box[2] - box[0]))
    return cropped, points - low


def _recoloured(pair: Pair, strength: float, generator: np.random.Generator) -> Pair:
    changes = 1 + strength * (2 * generator.random((2, 3)) - 1)
    source = _derived(pair.source, f"colour{changes[0].round(4).tolist()}", partial(_recolour, factors=changes[0]))
    target = _derived(pair.target, f"colour{changes[1].round(4).tolist()}", partial(_recolour, factors=changes[1]))
    return replace(pair, source=source, target=target)


def _derived(
    ref: ImageRef, tag: str, change: Callable[[np.ndarray], np.ndarray], size: tuple[int, int] | None = None
) -> ImageRef:
    """An image made from another one when it is loaded."""
    return ImageRef(key=f"{ref.key}|{tag}", size=size or ref.size, render=lambda: change(ref.load()))


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
    return image.clip(0, 255).astype(np.uint8)
