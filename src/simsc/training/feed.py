"""Feeds the training loop: this process's share of each batch, prepared while the last one is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from simsc import distributed
from simsc.data.records import ImageRef, Pair
from simsc.data.sources import load_pairs
from simsc.errors import ConfigError
from simsc.evaluation.encoder import ImageEncoder, prefetch
from simsc.models.model import State
from simsc.training.augment import Augmenter
from simsc.training.batches import PairBatch, collate
from simsc.training.config import Config
from simsc.training.sampler import epoch_batches


@dataclass(frozen=True)
class Work:
    """One process's part of a batch.

    Attributes:
        batch: its pairs.
        state: trunk states of the batch's images.
        weight: 0 for a process that has no pair of this batch and only takes part in the reduction, else 1.
        global_pairs: pairs of the batch over all processes.
        image_shares: ``(M,)`` how much each image counts in statistics over all processes: one over the number of
            processes that hold it; 0 where this process only takes part.
    """

    batch: PairBatch
    state: State
    weight: float
    global_pairs: int
    image_shares: Tensor


class TrainingFeed:
    """The pairs of a training run in the order of its seed."""

    def __init__(
        self, pairs: Sequence[Pair], encoder: ImageEncoder, config: Config, anchors: Sequence[Pair] = ()
    ) -> None:
        self.pairs, self.encoder, self.config, self.anchors = pairs, encoder, config, anchors
        self.augment = Augmenter(pairs, config) if config.augments else None
        if config.group > 2:
            self._check_groups()

    def batches(self, epoch: int) -> list[list[int]]:
        """Indices of the pairs of each batch of an epoch."""
        config = self.config
        return epoch_batches(
            self.pairs, config.batch_size, config.seed, epoch, config.share_images, config.group, self.anchors
        )

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Work]:
        """What this process computes in an epoch, from batch number ``start`` on."""
        workers = 1 if self.encoder.device.type == "cpu" else 4
        return prefetch(self._jobs(epoch, start), depth=2 * workers, workers=workers)

    def images(self, epoch: int) -> list[ImageRef]:
        """Images of this process's share of an epoch."""
        shares = [distributed.my_share(batch) for batch in self.batches(epoch)]
        return unique_images(self._drawn([index for share in shares for index in share], epoch))

    def all_images(self) -> list[ImageRef]:
        """Every image that any epoch can ask for."""
        return unique_images(self.pairs) if self.augment is None else list(self.augment.copies())

    def _jobs(self, epoch: int, start: int) -> Iterator[Callable[[], Work]]:
        for indices in self.batches(epoch)[start:]:
            yield partial(self._prepare, epoch, indices)

    def _prepare(self, epoch: int, indices: Sequence[int]) -> Work:
        share = distributed.my_share(indices)
        batch = collate(self._drawn(share or indices[:1], epoch), self.encoder.frame)
        state = self.encoder.states(batch.images)
        holders = Counter(
            key for part in distributed.all_shares(indices) for key in image_keys(self._drawn(part, epoch))
        )
        shares = torch.tensor([1 / holders[ref.key] if share else 0.0 for ref in batch.images])
        return Work(batch.to(self.encoder.device), state, float(bool(share)), len(indices), shares)

    def _check_groups(self) -> None:
        """Refuse groups that a list of few pairs cannot fill: most of their images would be shown for nothing."""
        batches, group = self.batches(0), self.config.group
        drawn, images = sum(len(batch) for batch in batches), len(unique_images(self.pairs))
        if drawn < images:
            raise ConfigError(
                f"group = {group} draws only {drawn} pairs of {images} images in an epoch, because the list holds few "
                "pairs of the same images; use group = 2, or a list of all pairs, as pfpascal's split train-all"
            )

    def _drawn(self, indices: Sequence[int], epoch: int) -> list[Pair]:
        """Pairs as they look in an epoch."""
        pairs = [self.pairs[index] for index in indices]
        return pairs if self.augment is None else [self.augment(pair, epoch) for pair in pairs]


def training_pairs(config: Config, root: str | Path | None) -> tuple[list[Pair], list[Pair]]:
    """Pairs to train on and the anchors of their groups (see :func:`epoch_batches`), limited to ``max_pairs``.

    With anchors it is these that are limited, and the pairs are those among the anchors' images.
    """
    pairs = load_pairs(config.data, root, config.train_split)
    if not config.anchor_split:
        return spread_evenly(pairs, config.max_pairs), []
    anchors = spread_evenly(load_pairs(config.data, root, config.anchor_split), config.max_pairs)
    known = image_keys(anchors)
    return [pair for pair in pairs if image_keys([pair]) <= known], anchors


def spread_evenly(pairs: Sequence[Pair], limit: int) -> list[Pair]:
    """At most ``limit`` pairs (0: all) from everywhere in the list, which is often sorted by category.

    >>> spread_evenly("abcdefgh", 3)
    ['a', 'c', 'f']
    """
    count = min(limit or len(pairs), len(pairs))
    return [pairs[index * len(pairs) // count] for index in range(count)]


def image_keys(pairs: Sequence[Pair]) -> set[str]:
    """Keys of the images of some pairs."""
    return {ref.key for pair in pairs for ref in (pair.source, pair.target)}


def unique_images(pairs: Sequence[Pair]) -> list[ImageRef]:
    """The images of some pairs, each once."""
    return list({ref.key: ref for pair in pairs for ref in (pair.source, pair.target)}.values())
