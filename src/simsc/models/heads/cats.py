"""CATs: a transformer over the score maps of several layers (Cho et al., NeurIPS 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.errors import ConfigError
from simsc.matching.features import Features
from simsc.matching.scores import at_least_float
from simsc.models.backbone import Backbone
from simsc.models.heads.attention import Aggregator
from simsc.models.heads.base import Head
from simsc.models.heads.levels import all_levels, resize_map, spread_layers
from simsc.models.heads.refined import RefinedScores, score_tensor, tempered

DEPTHS = (0.55, 0.7, 0.85)
"""Default layers as fractions of the backbone's depth: 7, 9 and 11 of a ResNet-50, beside its last map."""


class CATs(Head):
    """Cost aggregation: the scores of each level plus what attention makes of them, averaged over levels.

    Args:
        backbone: where the levels come from.
        layers: layers used beside the last map; empty for the default choice.
        grid: side of the grid attention works on; score tensors of other sizes are resized to it and back.
        appearance: channels that each level's features are projected to.
        depth: number of transformer blocks.
        heads: attention heads.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        layers: tuple[int, ...] = (),
        grid: int = 16,
        appearance: int = 128,
        depth: int = 1,
        heads: int = 6,
    ) -> None:
        super().__init__(backbone, layers or spread_layers(backbone, DEPTHS))
        if (grid**2 + appearance) % heads:
            raise ConfigError(
                f"head 'cats': grid^2 + appearance = {grid**2 + appearance} must be a multiple of heads = {heads}"
            )
        self.grid = grid
        self.project = nn.ModuleList(nn.Linear(level.channels, appearance) for level in self.levels)
        self.aggregate = Aggregator(len(self.levels), grid, appearance, depth, heads)

    def refine(self, source: Features, target: Features) -> RefinedScores:
        """Swapping self-attention: first over the cells of the source, then over those of the target."""
        scores = level_scores(source, target)
        coarse = resize_tensor(scores, (self.grid, self.grid), (self.grid, self.grid)).flatten(4).flatten(2, 3)
        once = coarse + self.aggregate(coarse, self.appearance(source))
        twice = once.mT + self.aggregate(once.mT, self.appearance(target))
        correction = (twice.mT - coarse).unflatten(3, (self.grid, -1)).unflatten(2, (self.grid, -1))
        correction = resize_tensor(at_least_float(correction), source.map_size, target.map_size)
        return tempered((scores + correction).mean(dim=1), source, target)

    def appearance(self, features: Features) -> Tensor:
        """Projected features of all levels on the grid, ``(B, L, grid^2, P)``."""
        maps = [resize_map(level, (self.grid, self.grid)) for level in all_levels(features)]
        cells = [level.flatten(2).transpose(1, 2) for level in maps]
        return torch.stack([project(level) for project, level in zip(self.project, cells, strict=True)], dim=1)


def level_scores(source: Features, target: Features) -> Tensor:
    """Score tensors of all levels at the size of the last maps: ``(B, L, h_A, w_A, h_B, w_B)``."""
    levels = zip(all_levels(source), all_levels(target), strict=True)
    return torch.stack(
        [score_tensor(resize_map(a, source.map_size), resize_map(b, target.map_size)) for a, b in levels], dim=1
    )


def resize_tensor(scores: Tensor, source: Size, target: Size) -> Tensor:
    """Score tensors ``(B, L, h_A, w_A, h_B, w_B)`` at other sizes of both images, one image after the other."""
    batch, levels, *sizes = scores.shape
    over_target = resize_map(scores.reshape(batch, -1, *sizes[2:]), target)
    over_target = over_target.unflatten(1, (levels, *sizes[:2])).permute(0, 1, 4, 5, 2, 3)
    over_source = resize_map(over_target.reshape(batch, -1, *sizes[:2]), source)
    return over_source.unflatten(1, (levels, *target)).permute(0, 1, 4, 5, 2, 3)
