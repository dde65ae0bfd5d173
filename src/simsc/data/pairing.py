"""Pairs out of annotated objects: within a category, reproducible by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from simsc.data.records import Annotated, Pair, common_points, pair_of

MANY = 200_000
"""Above so many possible pairs of a category they are drawn without listing them."""


def draw_pairs(objects: Iterable[Annotated], limit: int | None, seed: int = 0) -> list[Pair]:
    """Unordered pairs within each category, at most ``limit`` of each (None: all), in the order of the categories.

    Which pairs are drawn and which image is the source depends on the seed, the category and the names only.
    """
    return [
        pair
        for category, members in by_category(objects).items()
        for pair in _draw_within(category, members, limit, seed)
    ]


def by_category(objects: Iterable[Annotated]) -> dict[str, list[Annotated]]:
    """Objects of each category, in the order they come."""
    members: dict[str, list[Annotated]] = {}
    for one in objects:
        members.setdefault(one.category, []).append(one)
    return members


def can_pair(source: Annotated, target: Annotated) -> bool:
    """Whether two objects of a category lie in different images and have a key-point in common."""
    return source.image.key != target.image.key and len(common_points(source, target)) > 0


def _draw_within(category: str, objects: Sequence[Annotated], limit: int | None, seed: int) -> list[Pair]:
    ordered = sorted(objects, key=lambda one: one.name)
    chance = random.Random(f"{seed}/{category}")
    if limit is not None and len(ordered) * (len(ordered) - 1) // 2 > MANY:
        possible = _some_pairs(ordered, limit, chance)
    else:
        possible = [pair for pair in combinations(ordered, 2) if can_pair(*pair)]
        if limit is not None and len(possible) > limit:
            possible = chance.sample(possible, limit)
    return [pair_of(*(pair if chance.random() < 0.5 else pair[::-1])) for pair in possible]


def _some_pairs(objects: Sequence[Annotated], limit: int, chance: random.Random) -> list[tuple[Annotated, Annotated]]:
    """Up to ``limit`` different pairs that can be formed, in the order they were drawn."""
    found: dict[tuple[int, int], None] = {}
    for first, second in _random_numbers(len(objects), 20 * limit, chance):
        if len(found) == limit:
            break
        if first < second and can_pair(objects[first], objects[second]):
            found[first, second] = None
    return [(objects[first], objects[second]) for first, second in found]


def _random_numbers(count: int, tries: int, chance: random.Random) -> Iterator[tuple[int, int]]:
    for _ in range(tries):
        yield chance.randrange(count), chance.randrange(count)
