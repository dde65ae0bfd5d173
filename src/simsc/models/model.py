"""The SimSC model: backbone, temperature and head, split into a frozen trunk and a trainable tail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from simsc.coordinates import Convention, Size, check_convention, resize_points
from simsc.matching.features import Features
from simsc.matching.scores import QueryMode, ScoreMaps
from simsc.models.backbone import Backbone
from simsc.models.heads import build_head
from simsc.models.heads.base import Asked
from simsc.models.temperature import build_temperature
from simsc.models.trainable import paper_rates, tail_blocks

State = tuple[Tensor, ...]
"""What the trunk hands to the tail: the state before the tail, then the maps of layers that a head asked for."""


class SimSC(nn.Module):
    """Feature backbone with temperature learning, and by default no more than that for a head.

    Args:
        backbone: see :func:`simsc.models.build_backbone`.
        temperature: ``mlp``, ``single``, ``fixed:<t>`` or ``per-pixel``.
        trainable: which part of the backbone learns: ``none``, ``last-block``, ``last-<k>`` (the last k blocks),
            ``last-stage`` (a ResNet's whole ``layer3``) or ``all``.
        normalize: L2-normalise features; ``False`` is the NoL2Norm ablation.
        query: how features are read at query points, see :func:`simsc.matching.query_scores`.
        convention: how pixels and cells relate, see :mod:`simsc.coordinates`.
        freeze_batchnorm: keep BatchNorm's running statistics while training.
        head: ``none`` for the plain one, or another of :data:`simsc.models.heads.HEADS`.
    """

    def __init__(
        self,
        backbone: Backbone,
        temperature: str = "mlp",
        trainable: str = "last-block",
        *,
        normalize: bool = True,
        query: QueryMode = "normalize-then-sample",
        convention: Convention = "center",
        freeze_batchnorm: bool = True,
        head: str = "none",
    ) -> None:
        super().__init__()
        check_convention(convention)
        self.backbone = backbone
        self.temperature = build_temperature(temperature, backbone.channels)
        self.temperature_name = temperature
        self.normalize, self.query, self.convention = normalize, query, convention
        self.freeze_batchnorm = freeze_batchnorm
        self.head_name = head
        self.precision: torch.dtype | None = None  # of products in inference; None for that of the weights
        self.prepared = False  # for inference, see simsc.models.inference: no longer to be trained or saved
        self.head = build_head(head, backbone, normalize=normalize, query=query)
        self.set_trainable(trainable)

    def set_trainable(self, trainable: str) -> None:
        """Choose which part of the backbone learns; everything else is frozen and becomes the trunk."""
        self.trainable = trainable
        self.backbone.tail_blocks = tail_blocks(trainable, self.backbone)
        self.backbone.requires_grad_(False)
        for module in self.backbone.tail_modules():
            module.requires_grad_(True)
        self.train(self.training)

    def set_temperature(self, temperature: str) -> None:
        """Replace the temperature module, for example by ``fixed:0.03`` to evaluate at a constant one."""
        self.temperature = build_temperature(temperature, self.backbone.channels)
        self.temperature_name = temperature

    def train(self, mode: bool = True) -> SimSC:
        """Training mode for what learns; the trunk always evaluates, so that its outputs can be cached."""
        super().train(mode)
        self.backbone.eval()
        for module in self.backbone.tail_modules():
            module.train(mode)
        if self.freeze_batchnorm:
            for module in self.backbone.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    def trunk(self, images: Tensor) -> State:
        """Frozen part: ``(B, 3, H, W)`` in [0, 1] -> state that :meth:`encode_state` continues from."""
        size = _size(images)
        self.backbone.check_size(size)
        with torch.no_grad():
            if self._split < 0:
                return (images,)
            with self._computing(images):
                state = self.backbone.embed(self.backbone.normalize(images))
                state, layers = self._walk(state, 0, self._split, size)
            return (state, *layers)

    def encode_state(self, state: State, image_size: Size) -> Features:
        """Features of images from their (cached) trunk outputs."""
        current, *layers = state
        start = self._split
        with self._computing(current):
            if start < 0:
                current, start = self.backbone.embed(self.backbone.normalize(current)), 0
            # A layer that ends exactly at the split was already collected by the trunk.
            done = start if self._split >= 0 else -1
            current, more = self._walk(current, start, self.backbone.num_blocks, image_size, after=done)
            maps = self._whole(self.backbone.to_map(current, image_size, final=True))
        features = Features(maps, self.temperature(maps), image_size, (*layers, *more))
        with self._computing(current):
            features = self.head.prepare(features)
        return replace(features, maps=self._whole(features.maps))

    def encode(self, images: Tensor) -> Features:
        """Features of images ``(B, 3, H, W)`` in [0, 1]."""
        return self.encode_state(self.trunk(images), _size(images))

    forward = encode

    def score_maps(self, source: Features, target: Features, points: Tensor) -> Tensor:
        """Score maps ``(B, N, h, w)`` over the targets of points ``(B, N, 2)`` in pixels of the sources' input."""
        return self.scorer(source, target)(self._cells(source, points))

    def scorer(self, source: Features, target: Features) -> ScoreMaps:
        """Score maps as a function of points ``(B, N, 2)`` in cells of the source, to ask many times."""
        return self.head.scorer(source, target)

    def pair_scores(self, images: Features, source: Tensor, target: Tensor, points: Tensor) -> Tensor:
        """Score maps ``(P, N, h, w)`` of pairs of ``images``: :meth:`score_maps` of each, sharing what they share.

        ``source`` and ``target`` are the index ``(P,)`` of each pair's images, ``points`` ``(P, N, 2)`` in pixels.
        """
        return self.head.score_pairs(images, source, target, self._cells(images, points))

    def read(self, source: Features, points: Sequence[Tensor]) -> list[Asked]:
        """Several lists of points ``(n_i, 2)`` in pixels of one source's input, for :meth:`Head.score` over targets."""
        return self.head.read(source, [self._cells(source, each) for each in points])

    def tail_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters of the backbone that learn."""
        return (parameter for parameter in self.backbone.parameters() if parameter.requires_grad)

    def parameter_groups(
        self, backbone_rate: float | None = None, temperature_rate: float | None = None, head_rate: float | None = None
    ) -> list[dict[str, object]]:
        """Optimiser groups with their learning rates, the paper's where none is given; empty ones are left out."""
        paper = paper_rates(self.trainable, self.temperature_name)
        groups: list[dict[str, object]] = [
            {
                "name": "backbone",
                "params": list(self.tail_parameters()),
                "lr": _first(backbone_rate, paper["backbone"]),
            },
            {
                "name": "temperature",
                "params": list(self.temperature.parameters()),
                "lr": _first(temperature_rate, paper["temperature"]),
            },
            {
                "name": "head",
                "params": list(self.head.parameters()),
                "lr": _first(head_rate, paper["head"]),
            },
        ]
        return [group for group in groups if group["params"]]

    def _computing(self, like: Tensor) -> AbstractContextManager[object]:
        """The precision of inference; training has its own, which this must not end."""
        return nullcontext() if self.precision is None else torch.autocast(like.device.type, dtype=self.precision)

    def _whole(self, maps: Tensor) -> Tensor:
        """Maps as the rest of the pipeline computes with them: in float32 where inference was quicker than that."""
        return maps if self.precision is None else maps.float()

    @property
    def _split(self) -> int:
        """Index of the first block of the tail; -1 if the embedding learns too."""
        return self.backbone.num_blocks - self.backbone.tail_blocks

    def _walk(
        self, state: Tensor, start: int, stop: int, size: Size, after: int = -1
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run blocks ``start`` to ``stop - 1``, collecting the maps of layers in ``(after, stop]`` the head wants."""
        maps = []
        for layer in sorted(layer for layer in self.head.layers if after < layer <= stop):
            state, start = self.backbone.run_blocks(state, start, layer, size), layer
            maps.append(self.backbone.to_map(state, size, final=layer == self.backbone.num_blocks))
        return self.backbone.run_blocks(state, start, stop, size), tuple(maps)

    def _cells(self, source: Features, points: Tensor) -> Tensor:
        """Pixels ``(..., 2)`` of the input in cells of the map."""
        return resize_points(points, source.image_size, source.map_size, self.convention)


def _size(images: Tensor) -> Size:
    return images.shape[-2], images.shape[-1]


def _first(value: float | None, default: float) -> float:
    return default if value is None else value
