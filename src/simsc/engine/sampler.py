"""The order of training: a shuffle by seed and epoch in which pairs that share images stand together.

PF-Pascal lists every pair in both orders. Drawn side by side they need two image forwards instead of four, and
the batch still holds the same number of pairs. Where a list holds most pairs of its images, groups of more images go
further: four images that are all matched with each other are twelve pairs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np

from simsc.data.records import Pair


def epoch_batches(
    pairs: Sequence[Pair], batch_size: int, seed: int, epoch: int, share_images: bool = True, group: int = 2
) -> list[list[int]]:
    """Indices of the pairs of each batch. Same seed and epoch, same batches.

    Args:
        pairs: the list.
        batch_size: pairs per batch; with larger groups a batch ends with the group that reaches this number.
        seed, epoch: decide the order.
        share_images: let pairs that share images stand together.
        group: with 2, every pair occurs once in an epoch. With more, every image does: each epoch divides the images
            of a category into groups of so many and takes all pairs within them.
    """
    generator = np.random.default_rng([seed, epoch])
    if group > 2:
        return _packed(_groups(pairs, group, generator), batch_size, generator)
    units = _both_orders(pairs, generator) if share_images else [[index] for index in range(len(pairs))]
    order = [index for unit in generator.permutation(len(units)) for index in units[unit]]
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def image_forwards(pairs: Sequence[Pair], batches: Sequence[Sequence[int]]) -> int:
    """How many image forwards the batches need when each image is encoded once per batch."""
    return sum(
        len({key for index in batch for key in (pairs[index].source.key, pairs[index].target.key)}) for batch in batches
    )


def _both_orders(pairs: Sequence[Pair], generator: np.random.Generator) -> list[list[int]]:
    """Units of one pair, or of two that are each other's reverse; which copies meet changes with the epoch."""
    waiting: dict[tuple[str, str], deque[int]] = defaultdict(deque)
    units = []
    for index in generator.permutation(len(pairs)).tolist():
        source, target = pairs[index].source.key, pairs[index].target.key
        if waiting[target, source]:
            units.append([waiting[target, source].popleft(), index])
        else:
            waiting[source, target].append(index)
    units.extend([index] for group in waiting.values() for index in group)
    return units


def _groups(pairs: Sequence[Pair], size: int, generator: np.random.Generator) -> list[list[int]]:
    """Pairs within random groups of ``size`` or a few more images of one category, mirrored or not."""
    members: dict[tuple[str, bool], dict[str, None]] = defaultdict(dict)
    for pair in pairs:
        members[pair.category, pair.source.flip].update({pair.source.key: None, pair.target.key: None})
    group_of: dict[tuple[str, str], int] = {}
    number = 0
    for (category, _), keys in members.items():
        order = generator.permutation(list(keys))
        for part in np.array_split(order, max(len(order) // size, 1)):
            group_of.update({(category, key): number for key in part.tolist()})
            number += 1
    units: list[list[int]] = [[] for _ in range(number)]
    for index, pair in enumerate(pairs):
        home = group_of[pair.category, pair.source.key]
        if home == group_of[pair.category, pair.target.key]:
            units[home].append(index)
    return [unit for unit in units if unit]


def _packed(units: list[list[int]], batch_size: int, generator: np.random.Generator) -> list[list[int]]:
    """Whole units in random order, in batches of ``batch_size`` or a few more."""
    batches: list[list[int]] = [[]]
    for unit in generator.permutation(len(units)):
        if len(batches[-1]) >= batch_size:
            batches.append([])
        batches[-1].extend(units[unit])
    return batches
