"""Pairs of scenes, listed without drawing a picture."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np

from simsc.data.catalog import Dataset, DatasetInfo
from simsc.data.records import Annotated, ImageRef, Pair, common_points, pair_of
from simsc.errors import DataError, unknown_name
from simsc.scenes.looks import Draws
from simsc.scenes.scene import CATEGORIES, POINT_NAMES, SPLITS, render_scene, scene_geometry

IMAGES_PER_CATEGORY = {"train": 40, "val": 12, "test": 16}
PAIRS_PER_CATEGORY = {"train": 100, "val": 15, "test": 25}
MIN_SHARED_POINTS = 3


def load_pairs(
    split: str = "test",
    *,
    pairs_per_category: int | None = None,
    images_per_category: int | None = None,
    size: int = 256,
) -> list[Pair]:
    """Annotated pairs of a split; each shares at least three key-points that both pictures show.

    Args:
        split: ``train``, ``val`` or ``test``; no two splits share a picture.
        pairs_per_category: how many; by default 100, 15 and 25 for the three splits. Fewer where the pictures
            do not give as many.
        images_per_category: how many pictures the pairs are drawn from; by default 40, 12 and 16.
        size: longer side of the pictures in pixels.

    >>> pairs = load_pairs("val", pairs_per_category=2)
    >>> len(pairs), pairs[0].source.key.rsplit("/", 1)[0]
    (12, 'scenes/val/quadruped')
    """
    if split not in SPLITS:
        raise DataError(unknown_name("split of scenes", split, SPLITS))
    images = IMAGES_PER_CATEGORY[split] if images_per_category is None else images_per_category
    wanted = PAIRS_PER_CATEGORY[split] if pairs_per_category is None else pairs_per_category
    return [pair for name in CATEGORIES for pair in _category_pairs(name, split, images, wanted, size)]


def render_image(category: str, index: int, split: str, size: int) -> np.ndarray:
    """Only the pixels ``(H, W, 3)`` of a scene."""
    return render_scene(category, index, split=split, size=size).image


def image_ref(category: str, index: int, split: str, size: int) -> ImageRef:
    """A picture that is drawn when it is loaded, in any process."""
    render = partial(render_image, category, index, split, size)
    name = split if size == 256 else f"{split}-{size}"
    return ImageRef(
        f"scenes/{name}/{category}/{index:04d}", scene_geometry(category, index, split, size).size, render=render
    )


def _category_pairs(category: str, split: str, images: int, wanted: int, size: int) -> list[Pair]:
    candidates = list(permutations(range(images), 2))
    draws = Draws("simsc-scenes", split, category, images, "pairs")
    pairs: list[Pair] = []
    while candidates and len(pairs) < wanted:
        chosen = draws.integer(len(candidates))
        candidates[chosen], candidates[-1] = candidates[-1], candidates[chosen]
        source, target = candidates.pop()
        pair = _pair(category, split, source, target, size)
        if pair is not None:
            pairs.append(pair)
    return pairs


def _pair(category: str, split: str, source: int, target: int, size: int) -> Pair | None:
    first, second = (annotated(category, index, split, size) for index in (source, target))
    return pair_of(first, second) if len(common_points(first, second)) >= MIN_SHARED_POINTS else None


def annotated(category: str, index: int, split: str, size: int = 256) -> Annotated:
    """The object of a scene with its key-points, the visible ones present."""
    geometry = scene_geometry(category, index, split, size)
    image = image_ref(category, index, split, size)
    names = POINT_NAMES[category]
    return Annotated(f"{index:04d}", category, image, geometry.points, geometry.visible, geometry.box.copy(), names)


class Scenes(Dataset):
    """The procedural scenes as a data set, with a list of pairs that never changes."""

    info = DatasetInfo(
        name="scenes",
        title="Procedural scenes",
        splits=("train", "val", "test"),
        threshold="img",
        drawn=True,
        licence="part of this project",
        by_hand="nothing to download: the scenes are drawn on demand",
    )
    listed = True

    def objects(self, root: Path, split: str) -> list[Annotated]:  # noqa: ARG002 - there are no files
        """The pictures that the pairs of a split are drawn from."""
        return [annotated(name, index, split) for name in CATEGORIES for index in range(IMAGES_PER_CATEGORY[split])]

    def pairs(self, root: Path, split: str) -> list[Pair]:  # noqa: ARG002 - there are no files
        """See :func:`load_pairs`."""
        return load_pairs(split)


SCENES = Scenes()
