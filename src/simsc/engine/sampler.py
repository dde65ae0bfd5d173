"""The order of training: a shuffle by seed and epoch in which pairs that share both images stand together.

PF-Pascal lists every pair in both orders. Drawn side by side they need two image forwards instead of four, and
the batch still holds the same number of pairs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np

from simsc.data.records import Pair


def epoch_batches(
    pairs: Sequence[Pair], batch_size: int, seed: int, epoch: int, share_images: bool = True
) -> list[list[int]]:
    """Indices of the pairs of each batch; every pair occurs once. Same seed and epoch, same batches."""
    generator = np.random.default_rng([seed, epoch])
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
