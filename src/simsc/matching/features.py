"""What the network says about a batch of images: feature maps and their temperatures, and reading maps at points."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.coordinates import Size, aligns_corners, to_normalized
from simsc.errors import ConfigError

COARSE = 16
"""At most so many cells along the larger side of a coarse grid."""


@dataclass(frozen=True)
class Features:
    """Features of a batch of images.

    Attributes:
        maps: ``(B, C, h, w)`` un-normalised features.
        beta: ``(B, 1, 1)`` one temperature per image, or ``(B, h, w)`` one per cell.
        image_size: ``(H, W)`` of the network's input, the frame of query points.
        layers: maps of further layers ``(B, C_i, h_i, w_i)``, for heads that ask for them.
    """

    maps: Tensor
    beta: Tensor
    image_size: Size
    layers: tuple[Tensor, ...] = ()

    def __len__(self) -> int:
        return self.maps.shape[0]

    @property
    def map_size(self) -> Size:
        """``(h, w)`` of the feature map."""
        return self.maps.shape[-2], self.maps.shape[-1]

    @property
    def temperature(self) -> Tensor:
        """``(B,)`` temperature of each image; the mean over cells where there is one per cell."""
        return self.beta.flatten(1).mean(dim=1)

    @cached_property
    def coarse(self) -> Tensor:
        """Unit vectors ``(B, C, h', w')`` of a coarse grid, computed on first use; see :func:`coarse_units`."""
        return coarse_units(self.maps)

    @property
    def nbytes(self) -> int:
        """Memory that it takes by now, with what was computed on first use."""
        return sum(part.nbytes for part in (*vars(self).values(), *self.layers) if isinstance(part, Tensor))

    def select(self, index: Tensor | slice) -> Features:
        """The features of some images of the batch; an image may be asked for several times.

        Pairs that share an image share its features, so its forward and backward pass are done once.
        """
        return replace(
            self,
            maps=_select(self.maps, index),
            beta=_select(self.beta, index),
            layers=tuple(_select(layer, index) for layer in self.layers),
        )

    def at_temperature(self, effective: float | None) -> Features:
        """The same features at a fixed effective temperature of their pairs, half of it each; None changes nothing."""
        if effective is None:
            return self
        if not effective > 0:
            raise ConfigError(f"temperature = {effective} is not allowed; allowed: above 0")
        return replace(self, beta=self.beta.new_full((len(self), 1, 1), math.sqrt(effective)))

    def detach(self) -> Features:
        """The same features, cut off from the graph."""
        return replace(
            self,
            maps=self.maps.detach(),
            beta=self.beta.detach(),
            layers=tuple(layer.detach() for layer in self.layers),
        )

    @staticmethod
    def stack(items: list[Features]) -> Features:
        """One batch out of several of the same size."""
        if len({item.image_size for item in items}) != 1:
            raise ValueError(f"cannot stack features of images of sizes {[item.image_size for item in items]}")
        return Features(
            maps=torch.cat([item.maps for item in items]),
            beta=torch.cat([item.beta for item in items]),
            image_size=items[0].image_size,
            layers=tuple(torch.cat(group) for group in zip(*(item.layers for item in items), strict=True)),
        )


def sample_map(maps: Tensor, points: Tensor) -> Tensor:
    """Bilinear samples ``(B, N, C)`` of maps ``(B, C, h, w)`` at points ``(B, N, 2)`` in cells.

    Cells are cells in every convention of :mod:`simsc.coordinates`, so none is asked for.

    >>> maps = torch.tensor([[[[0.0, 1.0, 2.0, 3.0]]]])
    >>> sample_map(maps, torch.tensor([[[1.25, 0.0], [-0.4, 0.0]]])).flatten()
    tensor([1.2500, 0.0000])
    """
    maps = at_least_float(maps)
    grid = to_normalized(points.to(maps.dtype), (maps.shape[-2], maps.shape[-1]))
    sampled = F.grid_sample(maps, grid[:, None], padding_mode="border", align_corners=aligns_corners("center"))
    return sampled[:, :, 0].transpose(1, 2)


def coarse_units(maps: Tensor) -> Tensor:
    """Features ``(B, C, h, w)`` averaged over a grid of at most :data:`COARSE` cells a side, as unit vectors.

    Returns:
        ``(B, C, h', w')``, a cell's channels side by side in memory.

    >>> coarse_units(torch.ones(1, 4, 37, 50)).shape
    torch.Size([1, 4, 10, 13])
    """
    rows = at_least_float(maps).permute(0, 2, 3, 1)
    factor = -(-max(rows.shape[1:3]) // COARSE)
    down, across = (_averages(length, -(-length // factor), rows) for length in rows.shape[1:3])
    # Two small products: a pooling layer takes four times as long where channels are side by side.
    pooled = across @ (down @ rows.flatten(2)).unflatten(2, rows.shape[2:])
    return F.normalize(pooled, dim=3).permute(0, 3, 1, 2)


def _averages(length: int, parts: int, like: Tensor) -> Tensor:
    """Weights ``(parts, length)`` that average cells in parts of equal length, of whole cells, which may overlap.

    >>> _averages(3, 2, torch.zeros(1)).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    """
    part, cell = torch.arange(parts, device=like.device)[:, None], torch.arange(length, device=like.device)
    inside = (cell >= part * length // parts) & (cell * parts < (part + 1) * length)
    weights: Tensor = inside / inside.sum(dim=1, keepdim=True)
    return weights.to(like.dtype)


def neighbours(points: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """The four cells around each point and their bilinear weights, which sum to 1.

    Points beyond the outermost cell centres take the nearest place inside.

    Args:
        points: ``(..., 2)`` xy in cells.
        size: ``(h, w)`` of the map.

    Returns:
        ``(..., 4)`` indices into the flattened map, and ``(..., 4)`` weights.

    >>> neighbours(torch.tensor([0.25, 1.0]), (3, 4))
    (tensor([4, 5, 8, 9]), tensor([0.7500, 0.2500, 0.0000, 0.0000]))
    """
    limit = points.new_tensor([size[1] - 1, size[0] - 1])
    inside = torch.minimum(points.clamp(min=0), limit)
    low = inside.detach().floor()
    fraction = inside - low
    both = torch.stack([low, torch.minimum(low + 1, limit)], dim=-1).long()
    shares = torch.stack([1 - fraction, fraction], dim=-1)
    cells = both[..., 1, :, None] * size[1] + both[..., 0, None, :]
    weights = shares[..., 1, :, None] * shares[..., 0, None, :]
    return cells.flatten(-2), weights.flatten(-2)


def at_least_float(tensor: Tensor) -> Tensor:
    """Half precision to float32; float32 and float64 as they are."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _select(tensor: Tensor, index: Tensor | slice) -> Tensor:
    """``tensor[index]``; ``index_select`` copies and adds whole maps, faster than indexing in general."""
    return tensor[index] if isinstance(index, slice) else tensor.index_select(0, index)
