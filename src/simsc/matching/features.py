"""What the network says about a batch of images: feature maps and their temperatures."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from simsc.coordinates import Size
from simsc.errors import ConfigError


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


def _select(tensor: Tensor, index: Tensor | slice) -> Tensor:
    """``tensor[index]``; ``index_select`` copies and adds whole maps, faster than indexing in general."""
    return tensor[index] if isinstance(index, slice) else tensor.index_select(0, index)
