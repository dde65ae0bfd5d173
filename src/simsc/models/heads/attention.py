"""Transformer blocks over score maps of several levels: attention within each level, then across levels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MLP_RATIO = 4


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
        return tokens + self.mlp(self.mlp_norm(tokens))


class LevelBlock(nn.Module):
    """One layer among the cells of each level (intra), one among the levels of each cell (inter)."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.intra, self.inter = Layer(dim, heads), Layer(dim, heads)

    def forward(self, tokens: Tensor) -> Tensor:
        """``(B, L, n, D)`` -> the same."""
        tokens = self.intra(tokens)
        return self.inter(tokens.transpose(1, 2)).transpose(1, 2)


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
