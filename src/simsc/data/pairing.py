"""Pairs out of single annotated images: within a category, reproducible by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from simsc.data.readers.building import OFFICIAL_SLACK, Side, make_pair
from simsc.data.records import ImageRef, Pair


@dataclass(frozen=True)
class Annotated:
    """An object in an image.

    Attributes:
        name: unique within its category.
        image: where it is.
        points: ``(K, 2)`` xy, one row per key-point of the category.
        present: ``(K,)`` bool, which rows are annotated.
        box: ``(4,)`` or ``None``.
    """

    name: str
    image: ImageRef
    points: np.ndarray
    present: np.ndarray
    box: np.ndarray | None = None


def form_pairs(
    category: str,
    objects: Sequence[Annotated],
    *,
    limit: int | None = None,
    seed: int = 0,
    point_names: Sequence[str] = (),
    slack: float = OFFICIAL_SLACK,
) -> list[Pair]:
    """Unordered pairs of objects in different images with a common key-point, at most ``limit`` of them.

    Which pairs are drawn and which image is the source depends on the seed, the category and the names only.
    """
    ordered = sorted(objects, key=lambda one: one.name)
    chance = random.Random(f"{seed}/{category}")
    possible = [
        pair
        for pair in combinations(ordered, 2)
        if pair[0].image.key != pair[1].image.key and (pair[0].present & pair[1].present).any()
    ]
    if limit is not None and len(possible) > limit:
        possible = chance.sample(possible, limit)
    directed = [pair if chance.random() < 0.5 else pair[::-1] for pair in possible]
    return [pair_of(category, source, target, point_names, slack) for source, target in directed]


def pair_of(
    category: str,
    source: Annotated,
    target: Annotated,
    point_names: Sequence[str] = (),
    slack: float = OFFICIAL_SLACK,
) -> Pair:
    """The pair of two objects with the key-points present in both."""
    common = np.flatnonzero(source.present & target.present).tolist()
    names = tuple(point_names[index] if point_names else str(index) for index in common)
    return make_pair(
        f"{category}/{source.name}-{target.name}",
        category,
        Side(source.image, source.points[common], source.box),
        Side(target.image, target.points[common], target.box),
        names,
        slack,
    )
