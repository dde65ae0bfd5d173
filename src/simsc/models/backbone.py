"""Feature extractors, split into a frozen trunk and a trainable tail.

Every backbone is an embedding followed by blocks. The last ``tail_blocks`` blocks form the tail; what comes
before is the trunk, whose output can be cached because it does not change in training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.errors import ConfigError
from simsc.models.registry import HUB_PREFIX, BackboneSpec, find_backbone


class Backbone(nn.Module, ABC):
    """Common base: images ``(B, 3, H, W)`` in ``[0, 1]`` to a feature map ``(B, C, h, w)``.

    Subclasses say how to embed, how to run a range of blocks, and how a state becomes a map.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, spec: BackboneSpec) -> None:
        super().__init__()
        self.spec = spec
        self.channels = spec.channels
        self.stride = spec.stride
        self.num_blocks = spec.blocks
        self._tail_blocks = 0
        # Constants of the recipe, not weights: kept out of the state dict.
        self.register_buffer("mean", torch.tensor(spec.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(spec.std).view(1, 3, 1, 1), persistent=False)

    @property
    def tail_blocks(self) -> int:
        """How many of the last blocks form the tail; ``num_blocks + 1`` means the embedding too."""
        return self._tail_blocks

    @tail_blocks.setter
    def tail_blocks(self, count: int) -> None:
        if not 0 <= count <= self.num_blocks + 1:
            raise ConfigError(
                f"tail_blocks = {count} is not allowed for {self.spec.name}: 0 (nothing) to {self.num_blocks} "
                f"(all blocks) or {self.num_blocks + 1} (all blocks and the embedding)"
            )
        self._tail_blocks = count

    def trunk(self, images: Tensor) -> Tensor:
        """The frozen part: images ``(B, 3, H, W)`` to the state before the tail (images, if all is tail)."""
        self.check_size(_size(images))
        if self.tail_blocks > self.num_blocks:
            return images
        state = self.embed(self.normalize(images))
        return self.run_blocks(state, 0, self.num_blocks - self.tail_blocks, _size(images))

    def tail(self, state: Tensor, image_size: Size) -> Tensor:
        """The trainable part: a state of :meth:`trunk` to ``(B, C, h, w)``; leaves ``state`` untouched."""
        self.check_size(image_size)
        start = self.num_blocks - self.tail_blocks
        if start < 0:
            state, start = self.embed(self.normalize(state)), 0
        state = self.run_blocks(state, start, self.num_blocks, image_size)
        return self.to_map(state, image_size, final=True)

    def forward(self, images: Tensor) -> Tensor:
        """Images ``(B, 3, H, W)`` in ``[0, 1]`` to the feature map ``(B, C, h, w)``."""
        return self.tail(self.trunk(images), _size(images))

    def layers(self, images: Tensor, indices: Sequence[int]) -> list[Tensor]:
        """Maps ``(B, C_i, h_i, w_i)`` after the given blocks.

        0 is the embedding; ``num_blocks`` is what :meth:`forward` gives. A transformer's final norm belongs to
        its last block, so the earlier maps are without it.
        """
        size = _size(images)
        self.check_size(size)
        if bad := [index for index in indices if not 0 <= index <= self.num_blocks]:
            raise ConfigError(f"{self.spec.name} has no layer {bad[0]}: allowed are 0 to {self.num_blocks}")
        state, done, maps = self.embed(self.normalize(images)), 0, {}
        for index in sorted(set(indices)):
            state, done = self.run_blocks(state, done, index, size), index
            maps[index] = self.to_map(state, size, final=index == self.num_blocks)
        return [maps[index] for index in indices]

    def normalize(self, images: Tensor) -> Tensor:
        """Subtract the mean and divide by the std this backbone was pre-trained with."""
        return (images - self.mean) / self.std

    def check_size(self, image_size: Size) -> None:
        """Refuse image sizes the network cannot take; any size is fine unless a subclass says otherwise."""

    def fit_size(self, image_size: Size) -> Size:
        """The nearest size ``(H, W)`` the network takes."""
        return image_size

    @abstractmethod
    def embed(self, images: Tensor) -> Tensor:
        """Normalised images ``(B, 3, H, W)`` to the state before the first block."""

    @abstractmethod
    def run_blocks(self, state: Tensor, start: int, stop: int, image_size: Size) -> Tensor:
        """Run blocks ``start`` to ``stop - 1``."""

    @abstractmethod
    def to_map(self, state: Tensor, image_size: Size, final: bool) -> Tensor:
        """A state as a map ``(B, C, h, w)``; ``final`` says that it comes from the last block."""

    @abstractmethod
    def tail_modules(self) -> list[nn.Module]:
        """The modules of the tail, in the order of the computation: what is trained."""

    @abstractmethod
    def stage_blocks(self) -> int:
        """Number of blocks in the last stage; 1 where there are no stages."""

    @abstractmethod
    def grid_size(self, image_size: Size) -> Size:
        """``(h, w)`` of the feature map of an image ``(H, W)``."""


def build_backbone(
    name: str,
    weights: str | Path | None = "default",
    *,
    final_norm: bool = True,
    seed: int | None = None,
) -> Backbone:
    """Build a backbone of the registry, or any of the hub as ``hf:<repository>``, in evaluation mode.

    Args:
        name: a name or alias of :func:`simsc.models.registry.list_backbones`, or ``hf:<repository>``.
        weights: ``"default"`` for the registry's source, None or ``"random"`` for a random initialisation, or
            the path of a file in the original layout, the hub's or ours.
        final_norm: apply the final LayerNorm of a transformer.
        seed: seed of the random initialisation; the global generator is left as it was.

    >>> build_backbone("resnet50", weights=None)(torch.zeros(1, 3, 64, 96)).shape
    torch.Size([1, 1024, 4, 6])
    """
    if name.startswith(HUB_PREFIX):
        from simsc.models.hub import build_hub_backbone

        with _seeded(seed):
            return build_hub_backbone(name.removeprefix(HUB_PREFIX), weights, final_norm).eval()
    with _seeded(seed):
        backbone = from_spec(find_backbone(name), final_norm)
    if weights not in (None, "random"):
        from simsc.models.weights import load_weights

        load_weights(backbone, None if weights == "default" else Path(str(weights)))
    return backbone.eval()


def from_spec(spec: BackboneSpec, final_norm: bool = True) -> Backbone:
    """The randomly initialised network of an entry."""
    if spec.family == "resnet":
        from simsc.models.resnet import build_resnet

        return build_resnet(spec)
    from simsc.models.vit import build_vit

    return build_vit(spec, final_norm)


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    """Seed the block, if there is a seed, and leave the global generator as it was."""
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        yield


def _size(images: Tensor) -> Size:
    if images.ndim != 4 or images.shape[1] != 3:
        raise ConfigError(f"a backbone takes images of shape (B, 3, H, W), not {tuple(images.shape)}")
    return int(images.shape[2]), int(images.shape[3])
