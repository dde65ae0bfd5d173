"""The SimSC model: backbone + temperature (+ optional head), split into a frozen trunk and a trainable tail."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from simsc.coordinates import Convention, Size, check_convention, resize_points
from simsc.errors import ConfigError
from simsc.matching.features import Features
from simsc.matching.scores import QueryMode, query_scores
from simsc.models.backbones import Backbone
from simsc.models.temperature import build_temperature

TRAINABLE = "none, last-block, last-<k>, last-stage or all"


class SimSC(nn.Module):
    """Feature backbone with temperature learning and no matching head.

    Args:
        backbone: see :func:`simsc.models.build_backbone`.
        temperature: ``mlp``, ``single``, ``fixed:<t>`` or ``per-pixel``.
        trainable: which part of the backbone learns: ``none``, ``last-block``, ``last-<k>`` (the last k blocks),
            ``last-stage`` (a ResNet's whole ``layer3``) or ``all``.
        normalize: L2-normalise features; ``False`` is the NoL2Norm ablation.
        query: how features are read at query points, see :func:`simsc.matching.query_scores`.
        convention: how pixels and cells relate, see :mod:`simsc.coordinates`.
        freeze_batchnorm: keep BatchNorm's running statistics while training.
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
    ) -> None:
        super().__init__()
        check_convention(convention)
        self.backbone = backbone
        self.temperature = build_temperature(temperature, backbone.channels)
        self.temperature_name = temperature
        self.normalize, self.query, self.convention = normalize, query, convention
        self.freeze_batchnorm = freeze_batchnorm
        self.set_trainable(trainable)

    def set_trainable(self, trainable: str) -> None:
        """Choose which part of the backbone learns; everything else is frozen and becomes the trunk."""
        self.trainable = trainable
        self.backbone.tail_blocks = tail_blocks(trainable, self.backbone)
        self.backbone.requires_grad_(False)
        for module in self.backbone.tail_modules():
            module.requires_grad_(True)

    def train(self, mode: bool = True) -> SimSC:
        """Training mode for what learns; frozen BatchNorm layers keep their statistics."""
        super().train(mode)
        if mode and self.freeze_batchnorm:
            for module in self.backbone.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    def trunk(self, images: Tensor) -> Tensor:
        """Frozen part: ``(B, 3, H, W)`` in [0, 1] -> state that :meth:`encode_state` continues from."""
        with torch.no_grad():
            return self.backbone.trunk(images)

    def encode_state(self, state: Tensor, image_size: Size) -> Features:
        """Features of images from their (cached) trunk outputs."""
        maps = self.backbone.tail(state, image_size)
        return Features(maps, self.temperature(maps), image_size)

    def encode(self, images: Tensor) -> Features:
        """Features of images ``(B, 3, H, W)`` in [0, 1]."""
        return self.encode_state(self.trunk(images), tuple(images.shape[-2:]))

    forward = encode

    def score_maps(self, source: Features, target: Features, points: Tensor) -> Tensor:
        """Score maps ``(B, N, h, w)`` over the targets of points ``(B, N, 2)`` in pixels of the sources' input."""
        cells = resize_points(points, source.image_size, source.map_size, self.convention)
        return query_scores(
            source.maps,
            target.maps,
            cells,
            source.beta,
            target.beta,
            normalize=self.normalize,
            query=self.query,
            convention=self.convention,
        )

    def tail_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters of the backbone that learn."""
        return (parameter for parameter in self.backbone.parameters() if parameter.requires_grad)

    def parameter_groups(self, backbone_rate: float, temperature_rate: float) -> list[dict[str, object]]:
        """Optimiser groups with their learning rates; empty ones are left out."""
        groups: list[dict[str, object]] = [
            {"name": "backbone", "params": list(self.tail_parameters()), "lr": backbone_rate},
            {"name": "temperature", "params": list(self.temperature.parameters()), "lr": temperature_rate},
        ]
        return [group for group in groups if group["params"]]


def tail_blocks(trainable: str, backbone: Backbone) -> int:
    """How many of the last blocks ``trainable`` names; ``num_blocks + 1`` is everything."""
    if trainable == "last-stage":
        return backbone.stage_blocks()
    counts = {"none": 0, "last-block": 1, "all": backbone.num_blocks + 1}
    if trainable in counts:
        return counts[trainable]
    match = re.fullmatch(r"last-(\d+)", trainable)
    if not match or not 1 <= int(match[1]) <= backbone.num_blocks:
        raise ConfigError(
            f"trainable '{trainable}' is not allowed; allowed: {TRAINABLE} with k from 1 to {backbone.num_blocks}"
        )
    return int(match[1])
