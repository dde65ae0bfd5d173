"""A head that doubles the resolution of the features: finer cells, sharper targets; goes beyond the paper.

Learned up-sampling is what the strongest systems on DINOv2 features share (SimpleMatch, MARCO); here it keeps to the
paper's idea that features are compared as they are, at a temperature that is learned.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simsc.errors import ConfigError
from simsc.matching.features import Features
from simsc.models.backbone import Backbone
from simsc.models.heads.base import probe_levels
from simsc.models.heads.plain import Plain

SCALES = (1, 2)
"""Sizes of layers' maps that can be used, relative to the last map."""


class Upsampled(Plain):
    """The last map at twice its size: bilinear, plus what a small decoder reads from it and from further layers.

    Layers as large as the last map are decoded together with it; layers twice as large (a ResNet's stage before the
    last) join after the decoder's first step. The decoder starts at zero, so training starts from the backbone's own
    features. Cells relate to pixels as in the ``center`` convention of :mod:`simsc.coordinates`.

    Args:
        backbone: where the maps come from.
        layers: layers used beside the last map; empty for the end of the stage before the last or, in a transformer,
            the layer at three quarters of its depth.
        hidden: channels of the decoder; 0 takes as many as the last map has, at most 384.
        width: channels of what is compared, a projection of the last map; 0 compares the map itself.
    """

    def __init__(self, backbone: Backbone, *, layers: tuple[int, ...] = (), hidden: int = 0, width: int = 0) -> None:
        super().__init__(backbone)
        self.layers = tuple(sorted(set(layers))) or (_usual_layer(backbone),)
        self.levels = probe_levels(backbone, self.layers)
        if bad := [level.scale for level in self.levels if level.scale not in SCALES]:
            raise ConfigError(
                f"head 'upsampled': a layer of {bad[0]:g} times the last map's size; allowed: 1 or 2 times"
            )
        channels, hidden = backbone.channels, hidden or min(backbone.channels, 384)
        coarse = sum(level.channels for level in self.levels if level.scale == 1)
        self.norms = nn.ModuleList(nn.LayerNorm(level.channels) for level in self.levels[:-1])
        self.up = nn.ConvTranspose2d(coarse, hidden, 2, stride=2)
        self.laterals = nn.ModuleList(nn.Conv2d(level.channels, hidden, 1) for level in self.levels if level.scale == 2)
        self.around = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.narrow = nn.Conv2d(channels, width, 1, bias=False) if width else nn.Identity()
        if width:
            nn.init.orthogonal_(self.narrow.weight)  # type: ignore[arg-type]
        self.channels = width or channels
        self.out = nn.Conv2d(hidden, self.channels, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)  # type: ignore[arg-type]

    def prepare(self, features: Features) -> Features:
        """Maps ``(B, C, 2h, 2w)``; the temperature stays that of the backbone's map, each cell's for its four parts."""
        smooth = F.interpolate(self.narrow(features.maps), scale_factor=2.0, mode="bilinear")
        beta = features.beta
        if beta.shape[1:] == features.maps.shape[2:]:
            beta = beta.repeat_interleave(2, dim=1).repeat_interleave(2, dim=2)
        return replace(features, maps=smooth + self.out(self._decoded(features)), beta=beta, layers=())

    def _decoded(self, features: Features) -> Tensor:
        """What the decoder sees at each fine cell, ``(B, hidden, 2h, 2w)``."""
        normed = [_over_channels(norm, level) for norm, level in zip(self.norms, features.layers, strict=True)]
        sizes = [level.scale for level in self.levels]
        same = [level for level, scale in zip(normed, sizes, strict=False) if scale == 1]
        larger = [level for level, scale in zip(normed, sizes, strict=False) if scale == 2]
        fine = self.up(torch.cat([*same, features.maps], dim=1))
        for lateral, level in zip(self.laterals, larger, strict=True):
            fine = fine + lateral(level)
        fine = F.gelu(fine)
        return F.gelu(fine + self.around(fine))


def _over_channels(norm: nn.Module, maps: Tensor) -> Tensor:
    """A LayerNorm over the channels of maps ``(B, C, h, w)``."""
    normed: Tensor = norm(maps.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return normed


def _usual_layer(backbone: Backbone) -> int:
    last_stage = backbone.stage_blocks()
    return backbone.num_blocks - last_stage if last_stage > 1 else round(0.75 * backbone.num_blocks)
