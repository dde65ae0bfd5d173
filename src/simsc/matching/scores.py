"""Score maps of query points (Eq. 2 and Eq. 5 of the paper), without the (hw) x (hw) tensor.

Bilinear interpolation is linear, so interpolating the full score tensor at a query point equals the product of the
*interpolated source feature* with all target features. Sampling first costs ``n * C * hw`` instead of ``hw * C * hw``.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.coordinates import Convention, aligns_corners, to_normalized
from simsc.errors import ConfigError, unknown_name

EPS = 1e-6
QueryMode = Literal["normalize-then-sample", "sample-then-normalize"]


def query_scores(
    source: Tensor,
    target: Tensor,
    points: Tensor,
    source_beta: Tensor | None = None,
    target_beta: Tensor | None = None,
    *,
    normalize: bool = True,
    query: QueryMode = "normalize-then-sample",
    convention: Convention = "center",
) -> Tensor:
    """Score maps M_q of query points: ``(B, N, h_B, w_B)``, computed and returned in at least float32.

    Args:
        source: ``(B, C, h_A, w_A)`` un-normalised source features.
        target: ``(B, C, h_B, w_B)`` un-normalised target features.
        points: ``(B, N, 2)`` xy queries in cells of the source map; those beyond the outermost cell centres take
            the nearest value inside.
        source_beta, target_beta: ``(B, 1, 1)`` or ``(B, h, w)`` temperatures; ``None`` means 1.
        normalize: cosine similarity; ``False`` is the paper's NoL2Norm ablation.
        query: ``"normalize-then-sample"`` as in the paper, or ``"sample-then-normalize"``.
        convention: how ``points`` relate to the map, see :mod:`simsc.coordinates`.

    >>> source = torch.eye(4).reshape(1, 4, 2, 2)                    # four cells, four orthogonal features
    >>> query_scores(source, source, torch.tensor([[[0.5, 0.0]]]))   # half-way between the two upper cells
    tensor([[[[0.5000, 0.5000],
              [0.0000, 0.0000]]]])
    """
    with torch.autocast(device_type=source.device.type, enabled=False):
        queries = query_features(source, points, source_beta, normalize, query, convention)
        target = at_least_float(target)
        scores = queries @ target.flatten(2)
        scores = scores.unflatten(-1, target.shape[-2:])
        # Dividing the n score maps is cheaper than dividing the C target channels, and gives the same.
        return scores / _divisor(target, target_beta, normalize)[:, None]


def query_features(
    source: Tensor,
    points: Tensor,
    beta: Tensor | None = None,
    normalize: bool = True,
    query: QueryMode = "normalize-then-sample",
    convention: Convention = "center",
) -> Tensor:
    """Source features at the query points, normalised and divided by the temperature: ``(B, N, C)``."""
    if query not in get_args(QueryMode):
        raise ConfigError(unknown_name("query mode", query, get_args(QueryMode)))
    source = at_least_float(source)
    if query == "normalize-then-sample" or not normalize:
        return _sample_divided(source, _divisor(source, beta, normalize), points)
    features = F.normalize(sample_map(source, points, convention), dim=-1, eps=EPS)
    if beta is None:
        return features
    per_cell = beta.expand(-1, *source.shape[-2:]).unsqueeze(1)
    return features / sample_map(per_cell.to(source.dtype), points, convention)


def sample_map(maps: Tensor, points: Tensor, convention: Convention = "center") -> Tensor:
    """Bilinear samples ``(B, N, C)`` of maps ``(B, C, h, w)`` at points ``(B, N, 2)`` in cells.

    >>> maps = torch.tensor([[[[0.0, 1.0, 2.0, 3.0]]]])
    >>> sample_map(maps, torch.tensor([[[1.25, 0.0], [-0.4, 0.0]]])).flatten()
    tensor([1.2500, 0.0000])
    """
    grid = to_normalized(points.to(maps.dtype), maps.shape[-2:], convention)
    sampled = F.grid_sample(
        maps, grid[:, None], mode="bilinear", padding_mode="border", align_corners=aligns_corners(convention)
    )
    return sampled[:, :, 0].transpose(1, 2)


def unit_features(maps: Tensor, beta: Tensor | None = None, normalize: bool = True) -> Tensor:
    """The whole map ``(B, C, h, w)`` normalised over channels and divided by its temperature."""
    maps = at_least_float(maps)
    return maps / _divisor(maps, beta, normalize)[:, None]


def at_least_float(tensor: Tensor) -> Tensor:
    """Half precision to float32; float32 and float64 as they are."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _divisor(maps: Tensor, beta: Tensor | None, normalize: bool) -> Tensor:
    """What each cell's feature is divided by, ``(B, h, w)``: its norm times its temperature."""
    shape = (maps.shape[0], *maps.shape[-2:])
    norm = torch.linalg.vector_norm(maps, dim=1).clamp(min=EPS) if normalize else maps.new_ones(shape)
    return norm if beta is None else norm * beta.to(maps.dtype)


def _sample_divided(maps: Tensor, divisor: Tensor, points: Tensor) -> Tensor:
    """``sample_map(maps / divisor)`` without dividing the whole map: only the four neighbours are touched."""
    height, width = maps.shape[-2:]
    low, fraction = _neighbours(points.to(maps.dtype), (height, width))
    total = maps.new_zeros(1)
    flat, inverse = maps.flatten(2), divisor.flatten(1)
    for dx in (0, 1):
        for dy in (0, 1):
            x = (low[..., 0] + dx).clamp(0, width - 1)
            y = (low[..., 1] + dy).clamp(0, height - 1)
            weight = (fraction[..., 0] if dx else 1 - fraction[..., 0]) * (
                fraction[..., 1] if dy else 1 - fraction[..., 1]
            )
            cell = y * width + x
            feature = flat.gather(2, cell[:, None].expand(-1, flat.shape[1], -1))
            total = total + feature * (weight / inverse.gather(1, cell))[:, None]
    return total.transpose(1, 2)


def _neighbours(points: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Index of the upper left neighbour ``(B, N, 2)`` and the fraction beyond it, clamped to the map."""
    limit = points.new_tensor([size[1] - 1, size[0] - 1])
    inside = torch.minimum(points.clamp(min=0), limit)
    low = inside.detach().floor()
    return low.long(), inside - low
