"""The order of training: a shuffle by seed and epoch in which pairs that share images stand together.

PF-Pascal lists every pair in both orders. Drawn side by side they need two image forwards instead of four, and
the batch still holds the same number of pairs. Where a list holds most pairs of its images, groups of more images go
further: four images that are all matched with each other are twelve pairs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import permutations

import numpy as np

from simsc.data.records import Pair


def epoch_batches(
    pairs: Sequence[Pair],
    batch_size: int,
    seed: int,
    epoch: int,
    share_images: bool = True,
    group: int = 2,
    anchors: Sequence[Pair] = (),
) -> list[list[int]]:
    """Indices of the pairs of each batch. Same seed and epoch, same batches.

    Args:
        pairs: the list.
        batch_size: pairs per batch; with larger groups a batch ends with the group that reaches this number.
        seed, epoch: decide the order.
        share_images: let pairs that share images stand together.
        group: with 2, every pair occurs once in an epoch. With more, groups of so many images of a category are
            drawn, and all pairs within them taken.
        anchors: pairs that groups are built around, each occurring once in an epoch; without any, every image does.
    """
    generator = np.random.default_rng([seed, epoch])
    if group > 2:
        groups = _around(anchors, group, generator) if anchors else _divided(pairs, group, generator)
        return _packed(_pairs_within(groups, pairs), batch_size, generator)
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


def _divided(pairs: Sequence[Pair], size: int, generator: np.random.Generator) -> list[list[str]]:
    """The images of each kind in random groups of ``size`` or a few more."""
    members: dict[tuple[str, bool], dict[str, None]] = defaultdict(dict)
    for pair in pairs:
        members[_kind(pair)].update({pair.source.key: None, pair.target.key: None})
    return [group.tolist() for keys in members.values() for group in _chunks(list(keys), size, generator)]


def _around(anchors: Sequence[Pair], size: int, generator: np.random.Generator) -> list[list[str]]:
    """Groups of up to ``size`` images (a few more at times): those of anchors of one kind."""
    members: dict[tuple[str, bool], list[Pair]] = defaultdict(list)
    for unit in _both_orders(anchors, generator):  # an anchor and its reverse are the same two images
        members[_kind(anchors[unit[0]])].append(anchors[unit[0]])
    groups = []
    for units in members.values():
        for chunk in _chunks(range(len(units)), size // 2, generator):
            keys = (key for index in chunk for key in (units[index].source.key, units[index].target.key))
            groups.append(list(dict.fromkeys(keys)))
    return groups


def _kind(pair: Pair) -> tuple[str, bool]:
    """What the images of a group have in common: their category, and whether they are mirrored."""
    return pair.category, pair.source.flip


def _chunks(items: Sequence[object], size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Items in random order, in parts of ``size`` or a few more."""
    return np.array_split(generator.permutation(np.array(items)), max(len(items) // size, 1))


def _pairs_within(groups: Sequence[Sequence[str]], pairs: Sequence[Pair]) -> list[list[int]]:
    """Indices of all pairs within each group of images; groups without any are left out."""
    indices: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        indices[pair.source.key, pair.target.key].append(index)
    units = [[index for ends in permutations(group, 2) for index in indices.get(ends, ())] for group in groups]
    return [unit for unit in units if unit]


def _packed(units: list[list[int]], batch_size: int, generator: np.random.Generator) -> list[list[int]]:
    """Whole units in random order, in batches of ``batch_size`` or a few more."""
    batches: list[list[int]] = []
    for unit in generator.permutation(len(units)):
        if not batches or len(batches[-1]) >= batch_size:
            batches.append([])
        batches[-1].extend(units[unit])
    return batches
