"""Feature extractors: an embedding followed by blocks.

The last ``tail_blocks`` blocks form the tail, which learns; what comes before is the trunk, whose output can be cached
because it does not change in training. :class:`simsc.models.model.SimSC` walks through both.
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
from simsc.models.specs import HUB_PREFIX, BackboneSpec, find_backbone

Tensors = dict[str, Tensor]


class Backbone(nn.Module, ABC):
    """Common base: images ``(B, 3, H, W)`` in ``[0, 1]`` to a feature map ``(B, C, h, w)``.

    Subclasses say how to embed, how to run a range of blocks, and how a state becomes a map. Sides of images are
    multiples of the stride: then every cell covers exactly ``stride x stride`` pixels.
    """

    mean: Tensor
    std: Tensor
    any_size = False
    """Whether one traced graph serves images of all sizes."""
    final_norm = True
    """Apply a transformer's final LayerNorm to the output of its last block; nothing to networks without one."""

    def __init__(self, spec: BackboneSpec) -> None:
        super().__init__()
        self.spec = spec
        self.channels = spec.channels
        self.stride = spec.stride
        self.num_blocks = spec.blocks
        self._tail_blocks = 0
        # Constants of the recipe, not weights: kept out of the state dict.
        for name, values in (("mean", spec.mean), ("std", spec.std)):
            self.register_buffer(name, torch.tensor(values, device="cpu").view(1, 3, 1, 1), persistent=False)

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

    def layers(self, images: Tensor, indices: Sequence[int]) -> list[Tensor]:
        """Maps ``(B, C_i, h_i, w_i)`` after the given blocks.

        0 is the embedding; ``num_blocks`` is the network's output. A transformer's final norm belongs to its last
        block, so the earlier maps are without it.
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
        """Refuse sizes that are no whole number of cells: partial ones would shift every coordinate."""
        if any(side % self.stride or side < self.stride for side in image_size):
            fit = self.fit_size(image_size)
            raise ConfigError(
                f"{self.spec.name} takes images whose sides are multiples of {self.stride}, not "
                f"{image_size[0]}x{image_size[1]}; resize to {fit[0]}x{fit[1]} (height x width)"
            )

    def fit_size(self, image_size: Size) -> Size:
        """The nearest size ``(H, W)`` the network takes: multiples of the stride, at least one cell."""
        height, width = (max(round(side / self.stride), 1) * self.stride for side in image_size)
        return height, width

    def grid_size(self, image_size: Size) -> Size:
        """``(h, w)`` of the feature map of an image ``(H, W)``."""
        return image_size[0] // self.stride, image_size[1] // self.stride

    def own_names(self, tensors: Tensors) -> Tensors:
        """The tensors of a weights file under this network's names, without those it has no use for."""
        return tensors

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


def build_backbone(
    name: str,
    weights: str | Path | None = "default",
    *,
    final_norm: bool = True,
    seed: int | None = None,
) -> Backbone:
    """Build a backbone of the registry, or any of the hub as ``hf:<repository>``, in evaluation mode.

    Args:
        name: a name or alias of :func:`simsc.models.list_backbones`, or ``hf:<repository>``.
        weights: ``"default"`` for the registry's source, None or ``"random"`` for a random initialisation,
            ``"unset"`` for none (see :func:`unset`), or the path of a file in the authors' layout, the hub's or ours.
        final_norm: apply the final LayerNorm of a transformer.
        seed: seed of the random initialisation; the global generator is left as it was.

    >>> resnet = build_backbone("resnet50", weights=None)
    >>> resnet.layers(torch.zeros(1, 3, 64, 96), [resnet.num_blocks])[0].shape
    torch.Size([1, 1024, 4, 6])
    """
    with _seeded(seed):
        if name.startswith(HUB_PREFIX):
            from simsc.models.hub import build_hub_backbone

            backbone = build_hub_backbone(name.removeprefix(HUB_PREFIX), weights)
        else:
            backbone = _build_known(find_backbone(name), weights)
    backbone.final_norm = final_norm
    return backbone.eval()


def from_spec(spec: BackboneSpec) -> Backbone:
    """The network of an entry, as its builder gives it."""
    return spec.build(spec, **spec.settings)


def unset(spec: BackboneSpec) -> Backbone:
    """The network of an entry without memory for its weights, to be loaded with ``assign=True`` at once.

    Random weights that a file replaces would be a good part of the time it takes to open a model. A network that brings
    its weights along, or holds constants that no file has, is built as it is.
    """
    if spec.source is None:
        return from_spec(spec)
    with torch.device("meta"):
        backbone = from_spec(spec)
    stored = backbone.state_dict()
    if any(tensor.is_meta and name not in stored for name, tensor in backbone.named_buffers()):
        return from_spec(spec)
    return backbone


def _build_known(spec: BackboneSpec, weights: str | Path | None) -> Backbone:
    if weights == "unset":
        return unset(spec)
    if weights in (None, "random") or (weights == "default" and spec.source is None):
        return from_spec(spec)
    from simsc.models.weights import load_weights

    backbone = unset(spec)
    load_weights(backbone, None if weights == "default" else Path(str(weights)))
    return backbone


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
