"""The best pixel when target features are up-sampled to the image, without holding them all in memory."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.coordinates import Convention, Size, resize_points
from simsc.matching.scores import sample_map

MAX_BYTES = 64 << 20


def upsampled_argmax(queries: Tensor, target: Tensor, size: Size, convention: Convention = "center") -> np.ndarray:
    """Pixel ``(Q, 2)`` xy of an image of ``size`` whose interpolated, normalised feature suits each query best.

    Args:
        queries: ``(Q, C)`` query features.
        target: ``(C, h, w)`` un-normalised target features.
        size: ``(H, W)`` to which they are up-sampled, row block by row block.
        convention: see :mod:`simsc.coordinates`.
    """
    best = queries.new_full((len(queries),), float("-inf"))
    place = torch.zeros(len(queries), dtype=torch.long, device=queries.device)
    rows = max(1, MAX_BYTES // (4 * target.shape[0] * size[1]))
    for top in range(0, size[0], rows):
        block = _interpolated(target, size, top, min(rows, size[0] - top), convention)
        score, index = (queries @ F.normalize(block, dim=-1).T).max(dim=1)
        better = score > best
        best = torch.where(better, score, best)
        place = torch.where(better, index + top * size[1], place)
    return torch.stack([place % size[1], place // size[1]], dim=1).cpu().numpy().astype(np.float64)


def _interpolated(target: Tensor, size: Size, top: int, rows: int, convention: Convention) -> Tensor:
    """Features ``(rows * W, C)`` at the pixels of some rows of the image."""
    y = torch.arange(top, top + rows, device=target.device, dtype=target.dtype)
    x = torch.arange(size[1], device=target.device, dtype=target.dtype)
    pixels = torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], dim=-1).reshape(1, -1, 2)
    cells = resize_points(pixels, size, (target.shape[-2], target.shape[-1]), convention)
    return sample_map(target[None], cells)[0]
