"""A localiser: the best cell, moved by a parabola through it and its neighbours along each axis."""

import torch
import torch.nn.functional as F
from torch import Tensor


def parabola(scores: Tensor, beta: float = 1.0) -> Tensor:
    """Points ``(B, N, 2)`` xy in cells of score maps ``(B, N, h, w)``; ``beta`` scales scores and moves nothing."""
    width = scores.shape[-1]
    best = scores.flatten(2).argmax(dim=2)
    x, y = best % width, best // width
    padded = F.pad(scores, (1, 1, 1, 1), mode="replicate")

    def at(dx: int, dy: int) -> Tensor:
        cell = (y + 1 + dy) * (width + 2) + x + 1 + dx
        return padded.flatten(2).gather(2, cell[..., None])[..., 0]

    def vertex(left: Tensor, middle: Tensor, right: Tensor) -> Tensor:
        return ((left - right) / (2 * (left - 2 * middle + right)).clamp(max=-1e-9)).clamp(-0.5, 0.5)

    middle = at(0, 0)
    return torch.stack([x + vertex(at(-1, 0), middle, at(1, 0)), y + vertex(at(0, -1), middle, at(0, 1))], dim=-1)
