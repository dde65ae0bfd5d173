"""Batches of pairs: unique images, and points padded to a common number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simsc.data.records import ImageRef, Pair
from simsc.frames import Frame


@dataclass(frozen=True)
class PairBatch:
    """A batch of pairs. Pairs that share an image point at the same entry of ``images``.

    Attributes:
        images: the M unique images.
        source, target: ``(B,)`` index of each pair's images.
        source_points, target_points: ``(B, N, 2)`` xy in pixels of the network's input; padding is 0.
        mask: ``(B, N)`` which points are real.
    """

    images: tuple[ImageRef, ...]
    source: Tensor
    target: Tensor
    source_points: Tensor
    target_points: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return len(self.source)

    def to(self, device: torch.device) -> PairBatch:
        """The same batch with its tensors on ``device``."""
        tensors = (self.source, self.target, self.source_points, self.target_points, self.mask)
        return PairBatch(self.images, *(tensor.to(device, non_blocking=True) for tensor in tensors))

    def swapped(self) -> PairBatch:
        """The same pairs in the other direction."""
        return PairBatch(self.images, self.target, self.source, self.target_points, self.source_points, self.mask)


def collate(pairs: Sequence[Pair], frame: Callable[[ImageRef], Frame]) -> PairBatch:
    """Put pairs into a batch; ``frame`` gives the network's view of an image."""
    images: dict[str, ImageRef] = {}
    for pair in pairs:
        images.setdefault(pair.source.key, pair.source)
        images.setdefault(pair.target.key, pair.target)
    position = {key: index for index, key in enumerate(images)}
    shape = (len(pairs), max(len(pair.source_points) for pair in pairs))
    points = np.zeros((2, *shape, 2), dtype=np.float32)
    mask = np.zeros(shape, dtype=bool)
    for row, pair in enumerate(pairs):
        count = len(pair.source_points)
        points[0, row, :count] = frame(pair.source).to_network(pair.source_points)
        points[1, row, :count] = frame(pair.target).to_network(pair.target_points)
        mask[row, :count] = True
    return PairBatch(
        images=tuple(images.values()),
        source=torch.tensor([position[pair.source.key] for pair in pairs]),
        target=torch.tensor([position[pair.target.key] for pair in pairs]),
        source_points=torch.from_numpy(points[0]),
        target_points=torch.from_numpy(points[1]),
        mask=torch.from_numpy(mask),
    )
