"""Feeds the training loop: this process's share of each batch, prepared while the last one is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from simsc import distributed
from simsc.data.records import ImageRef, unique_images
from simsc.evaluation.encoder import ImageEncoder, prefetch
from simsc.models.model import State
from simsc.training.batches import PairBatch, collate
from simsc.training.sampler import Item, Pairing
from simsc.training.teacher import Teacher


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
        lessons: what a teacher says of some of its pairs.
    """

    batch: PairBatch
    state: State
    weight: float
    global_pairs: int
    image_shares: Tensor
    lessons: PairBatch | None = None


class TrainingFeed:
    """The pairs of a training run in the order of its seed.

    ``precision`` is what trunks compute in where they are not cached; None for that of the weights.
    """

    def __init__(
        self,
        pairing: Pairing,
        encoder: ImageEncoder,
        precision: torch.dtype | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        self.pairing, self.encoder, self.precision, self.teacher = pairing, encoder, precision, teacher

    def batches(self, epoch: int) -> list[list[Item]]:
        """The pairs of each batch of an epoch."""
        return self.pairing.batches(epoch)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Work]:
        """What this process computes in an epoch, from batch number ``start`` on."""
        workers = 1 if self.encoder.device.type == "cpu" else 4
        return prefetch(self._jobs(epoch, start), depth=2 * workers, workers=workers)

    def images(self, epoch: int) -> list[ImageRef]:
        """Images of this process's share of an epoch."""
        shares = [distributed.my_share(batch) for batch in self.batches(epoch)]
        return unique_images(self.pairing.pairs([item for share in shares for item in share], epoch))

    def _jobs(self, epoch: int, start: int) -> Iterator[Callable[[], Work]]:
        for items in self.batches(epoch)[start:]:
            yield partial(self._prepare, epoch, items)

    def _prepare(self, epoch: int, items: Sequence[Item]) -> Work:
        share = distributed.my_share(items)
        batch = collate(self.pairing.pairs(share or items[:1], epoch), self.encoder.frame)
        reduced = self.precision is not None and self.encoder.cache is None  # what is cached serves other runs too
        with torch.autocast(self.encoder.device.type, dtype=self.precision, enabled=reduced):
            state = self.encoder.states(batch.images)
        parts = [self.pairing.pairs(part, epoch) for part in distributed.all_shares(items)]
        holders = Counter(ref.key for part in parts for ref in unique_images(part))
        shares = torch.tensor([1 / holders[ref.key] if share else 0.0 for ref in batch.images])
        taught = self.pairing.taught(share, epoch, self.teacher) if self.teacher else []
        lessons = collate(taught, self.encoder.frame, batch.images).to(self.encoder.device) if taught else None
        return Work(batch.to(self.encoder.device), state, float(bool(share)), len(items), shares, lessons)
