"""Batches of pairs: unique images, and points padded to a common number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
        alone: ``(B, A, 2)`` xy of source points that the target does not have, padded likewise.
        alone_mask: ``(B, A)`` which of those are real.
    """

    images: tuple[ImageRef, ...]
    source: Tensor
    target: Tensor
    source_points: Tensor
    target_points: Tensor
    mask: Tensor
    alone: Tensor | None = None
    alone_mask: Tensor | None = None

    def __len__(self) -> int:
        return len(self.source)

    def to(self, device: torch.device) -> PairBatch:
        """The same batch with its tensors on ``device``."""
        moved: dict[str, Any] = {
            name: part.to(device, non_blocking=True) for name, part in vars(self).items() if isinstance(part, Tensor)
        }
        return replace(self, **moved)

    def swapped(self) -> PairBatch:
        """The same pairs in the other direction."""
        return PairBatch(self.images, self.target, self.source, self.target_points, self.source_points, self.mask)


@dataclass(frozen=True)
class Between:
    """Points between neighbouring key-points of each pair, whose counterparts are known roughly.

    Attributes:
        source_points, target_points: ``(B, N, 2)`` xy in pixels of the network's input.
        radius: ``(B, N)`` how far in the target the counterpart may lie from where it is thought to be, in pixels.
        mask: ``(B, N)`` which points are real.
    """

    source_points: Tensor
    target_points: Tensor
    radius: Tensor
    mask: Tensor


def points_between(batch: PairBatch, slack: float = 0.3) -> Between:
    """One point for each key-point of a pair, on the line to its nearest neighbour in the source or the next one.

    A straight line of an object is a straight line in any picture of it, divided alike, so the same share of the line
    in the target is a fair guess; ``slack`` times the length of that line is its radius. Shares (0.2 to 0.8) and
    neighbours follow from the coordinates, which augmentation shakes: the same points on any number of processes.
    """
    source, target = batch.source_points, batch.target_points
    count = source.shape[1]
    together = (
        batch.mask[:, :, None] & batch.mask[:, None, :] & ~torch.eye(count, dtype=torch.bool, device=source.device)
    )
    apart = torch.cdist(source, source).masked_fill(~together, math.inf)
    lengths, nearest = apart.topk(min(2, count), dim=2, largest=False)
    shaken = source.sum(dim=2) * 0.6180339887
    second = (shaken * 7).frac().gt(0.5) & lengths[..., -1].isfinite()
    other = torch.where(second, nearest[..., -1], nearest[..., 0])[..., None].expand(-1, -1, 2)
    share = (0.2 + 0.6 * shaken.frac())[..., None]
    far = target.gather(1, other)
    return Between(
        source_points=source + share * (source.gather(1, other) - source),
        target_points=target + share * (far - target),
        radius=slack * (far - target).norm(dim=2),
        mask=lengths[..., 0].isfinite(),
    )


def collate(pairs: Sequence[Pair], frame: Callable[[ImageRef], Frame], images: Sequence[ImageRef] = ()) -> PairBatch:
    """Put pairs into a batch; ``frame`` gives the network's view of an image, ``images`` come first in it."""
    unique = {ref.key: ref for ref in images}
    for pair in pairs:
        unique.setdefault(pair.source.key, pair.source)
        unique.setdefault(pair.target.key, pair.target)
    position = {key: index for index, key in enumerate(unique)}
    source_points, mask = _padded([frame(pair.source).to_network(pair.source_points) for pair in pairs])
    target_points, _ = _padded([frame(pair.target).to_network(pair.target_points) for pair in pairs])
    alone, alone_mask = _padded([frame(pair.source).to_network(pair.source_alone) for pair in pairs])
    return PairBatch(
        images=tuple(unique.values()),
        source=torch.tensor([position[pair.source.key] for pair in pairs]),
        target=torch.tensor([position[pair.target.key] for pair in pairs]),
        source_points=source_points,
        target_points=target_points,
        mask=mask,
        alone=alone,
        alone_mask=alone_mask,
    )


def _padded(lists: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Lists of points ``(n_i, 2)`` filled up with 0 to one length ``(B, N, 2)``, and which of them are real."""
    shape = (len(lists), max(len(points) for points in lists))
    filled, mask = np.zeros((*shape, 2), dtype=np.float32), np.zeros(shape, dtype=bool)
    for row, points in enumerate(lists):
        filled[row, : len(points)] = points
        mask[row, : len(points)] = True
    return torch.from_numpy(filled), torch.from_numpy(mask)
