"""CATs: a transformer over the score maps of several layers (Cho et al., NeurIPS 2021)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.errors import ConfigError
from simsc.matching.features import Features, at_least_float
from simsc.models.backbone import Backbone
from simsc.models.heads.base import Head, ScoreTensor, all_levels, resize_map, score_tensor, spread_layers, tempered

DEPTHS = (0.55, 0.7, 0.85)
"""Default layers as fractions of the backbone's depth: 7, 9 and 11 of a ResNet-50, beside its last map."""
MLP_RATIO = 4


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

    def scorer(self, source: Features, target: Features) -> ScoreTensor:
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
    result: Tensor = over_source.unflatten(1, (levels, *target)).permute(0, 1, 4, 5, 2, 3)
    return result


class SelfAttention(nn.Module):
    """Multi-head self-attention over the last but one dimension of ``(..., n, D)``."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_output = nn.Linear(dim, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """``(..., n, D)`` -> the same."""
        flat = tokens.flatten(0, -3)
        qkv = self.to_qkv(flat).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*qkv.unbind(0)).transpose(1, 2).flatten(2)
        output: Tensor = self.to_output(mixed)
        return output.view(tokens.shape)


class Layer(nn.Module):
    """Attention and a two-layer perceptron, each on normalised tokens and added to its input."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(dim), SelfAttention(dim, heads)
        self.mlp_norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, MLP_RATIO * dim), nn.GELU(), nn.Linear(MLP_RATIO * dim, dim))

    def forward(self, tokens: Tensor) -> Tensor:
        """``(..., n, D)`` -> the same."""
        tokens = tokens + self.attention(self.attention_norm(tokens))
        result: Tensor = tokens + self.mlp(self.mlp_norm(tokens))
        return result


class LevelBlock(nn.Module):
    """One layer among the cells of each level (intra), one among the levels of each cell (inter)."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.intra, self.inter = Layer(dim, heads), Layer(dim, heads)

    def forward(self, tokens: Tensor) -> Tensor:
        """``(B, L, n, D)`` -> the same."""
        tokens = self.intra(tokens)
        result: Tensor = self.inter(tokens.transpose(1, 2)).transpose(1, 2)
        return result


class Aggregator(nn.Module):
    """Tokens of all levels to a correction of their scores.

    A token is a cell's scores over the ``grid x grid`` cells of the other image, followed by its appearance. The
    last projection starts at zero: an untrained aggregator corrects nothing.
    """

    def __init__(self, levels: int, grid: int, appearance: int, depth: int, heads: int) -> None:
        super().__init__()
        dim = grid**2 + appearance
        self.level = nn.Parameter(torch.zeros(levels, 1, 1, dim))
        self.row = nn.Parameter(torch.zeros(grid, 1, dim))
        self.column = nn.Parameter(torch.zeros(grid, dim))
        for embedding in (self.level, self.row, self.column):
            nn.init.trunc_normal_(embedding, std=0.02)
        self.blocks = nn.Sequential(*(LevelBlock(dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)
        self.readout = nn.Linear(dim, grid**2)
        nn.init.zeros_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)

    def forward(self, scores: Tensor, appearance: Tensor) -> Tensor:
        """Scores ``(B, L, n, n)`` and appearance ``(B, L, n, P)`` to a correction ``(B, L, n, n)``."""
        tokens = torch.cat([scores, appearance.to(scores.dtype)], dim=-1)
        tokens = tokens + (self.level + self.row + self.column).flatten(1, 2)
        correction: Tensor = self.readout(self.norm(self.blocks(tokens)))
        return correction
