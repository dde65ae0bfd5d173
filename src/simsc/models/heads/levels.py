"""Which layers of a backbone a head reads, and what their maps look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.coordinates import Size
from simsc.errors import ConfigError
from simsc.matching.features import Features
from simsc.matching.scores import at_least_float
from simsc.models.backbone import Backbone

PROBE_CELLS = 2  # side of the map of the picture that levels are probed with


@dataclass(frozen=True)
class Level:
    """Map of one layer.

    Attributes:
        channels: C of ``(B, C, h, w)``.
        scale: its height or width divided by that of the backbone's last map; 4 for the first stage of a ResNet.
    """

    channels: int
    scale: float


def probe_levels(backbone: Backbone, layers: Sequence[int]) -> tuple[Level, ...]:
    """The levels of ``layers`` and of the last map, found out by running one tiny picture through the backbone."""
    if bad := [layer for layer in layers if not 0 <= layer < backbone.num_blocks]:
        raise ConfigError(
            f"{backbone.spec.name} has no layer {bad[0]} for a head: allowed are 0 to {backbone.num_blocks - 1}, "
            "the last map is always there"
        )
    if not layers:
        return (Level(backbone.channels, 1.0),)
    side = PROBE_CELLS * backbone.stride
    was_training = backbone.training
    backbone.eval()  # the probe must not move BatchNorm's statistics
    with torch.no_grad():
        maps = backbone.layers(backbone.mean.new_zeros(1, 3, side, side), [*layers, backbone.num_blocks])
    backbone.train(was_training)
    last = maps[-1].shape[-1]
    return tuple(Level(level.shape[1], level.shape[-1] / last) for level in maps)


def spread_layers(backbone: Backbone, fractions: Sequence[float]) -> tuple[int, ...]:
    """Layers at the given fractions of a backbone's depth, the same choice for any architecture."""
    layers = {round(fraction * backbone.num_blocks) for fraction in fractions}
    return tuple(sorted(layers - {backbone.num_blocks}))


def all_levels(features: Features) -> tuple[Tensor, ...]:
    """Maps of all levels ``(B, C_i, h_i, w_i)``, the last map at the end."""
    return (*features.layers, features.maps)


def resize_map(maps: Tensor, size: Size) -> Tensor:
    """Maps ``(B, C, h, w)`` at another size, antialiased bilinear, borders aligned; in at least float32.

    >>> resize_map(torch.tensor([[[[0.0, 2.0], [4.0, 6.0]]]]), (1, 1))
    tensor([[[[3.]]]])
    """
    maps = at_least_float(maps)
    if tuple(maps.shape[-2:]) == tuple(size):
        return maps
    return F.interpolate(maps, size=tuple(size), mode="bilinear", antialias=True)
