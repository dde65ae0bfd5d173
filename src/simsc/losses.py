"""The training objective (Sec. 3.3 of the paper): Gaussian cross-entropy and the temperature regulariser."""

from __future__ import annotations

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.errors import ConfigError, unknown_name
from simsc.matching.features import at_least_float, neighbours

REGION = 3  # the paper's n_s
KERNEL = 5  # the paper's n_k
Interpolation = Literal["log-prob", "prob"]


def gaussian_lattice(region: int = REGION, kernel: int = KERNEL, normalize: bool = True) -> tuple[Tensor, Tensor]:
    """Offsets ``(region^2, 2)`` xy in cells and weights ``(region^2,)`` of the target around the ground truth.

    The weights are the central ``region x region`` part of a ``kernel x kernel`` Gaussian with standard deviation
    ``floor(kernel / 2)``; normalised to sum 1, or as they stand in the normalised kernel.

    >>> offsets, weights = gaussian_lattice()
    >>> offsets[0].tolist(), round(weights.sum().item(), 6), round((weights[4] / weights[0]).item(), 4)
    ([-1.0, -1.0], 1.0, 1.284)
    """
    if not 1 <= region <= kernel or kernel < 2:
        raise ConfigError(
            f"Gaussian target of region {region}, kernel {kernel}: need 1 <= region <= kernel, kernel >= 2"
        )
    offsets, weights = _square_gaussian(region, sigma=kernel // 2)
    whole = weights.sum() if normalize else _square_gaussian(kernel, sigma=kernel // 2)[1].sum()
    return offsets, weights / whole


def gaussian_cross_entropy(
    scores: Tensor,
    points: Tensor,
    mask: Tensor,
    *,
    region: int = REGION,
    kernel: int = KERNEL,
    interpolate: Interpolation = "log-prob",
    normalize_target: bool = True,
) -> Tensor:
    """Cross-entropy of softmax(M_q) against a Gaussian around the un-rounded truth (Eq. 3), one value per pair.

    Stays finite at any temperature, value and gradient: everything happens in log space. Where the truth is near the
    border, the part of the target outside the map moves inside; a truth so far outside that nothing is left costs 0.

    Args:
        scores: ``(B, N, h, w)`` score maps.
        points: ``(B, N, 2)`` xy true positions in cells of the map.
        mask: ``(B, N)`` which points are real.
        region, kernel: the paper's n_s and n_k.
        interpolate: sample log-probabilities, or probabilities of which the logarithm is taken afterwards.
        normalize_target: whether the target's weights sum to 1.

    Returns:
        ``(B,)`` mean over the valid points of each pair; 0 for a pair without any.

    >>> flat = torch.zeros(1, 1, 16, 16)   # a uniform softmax over 256 cells costs ln 256
    >>> gaussian_cross_entropy(flat, torch.tensor([[[7.3, 2.0]]]), torch.tensor([[True]]))
    tensor([5.5452])
    """
    if interpolate not in get_args(Interpolation):
        raise ConfigError(unknown_name("interpolation", interpolate, get_args(Interpolation)))
    scores = at_least_float(scores)
    offsets, weights = gaussian_lattice(region, kernel, normalize_target)
    offsets, weights = offsets.to(scores), weights.to(scores)
    lattice = points.to(scores.dtype)[:, :, None] + offsets
    log_probability = _sample_log_probability(scores, lattice, interpolate)
    per_point = -(_inside_weights(lattice, weights, (scores.shape[-2], scores.shape[-1])) * log_probability).sum(dim=-1)
    valid = mask.to(scores.dtype)
    # Padding points hold arbitrary values: multiply only what is known to be finite.
    return per_point.masked_fill(~mask, 0.0).sum(dim=1) / valid.sum(dim=1).clamp(min=1)


def region_cross_entropy(scores: Tensor, points: Tensor, radius: Tensor, mask: Tensor) -> Tensor:
    """``-log`` of the probability that softmax(M_q) gives to a circle: where in it is left to the features.

    For correspondences that are known roughly; goes beyond the paper.

    Args:
        scores: ``(B, N, h, w)`` score maps.
        points: ``(B, N, 2)`` xy centres in cells of the map.
        radius: ``(B, N)`` in cells; a circle that holds no cell costs 0.
        mask: ``(B, N)`` which points are real.

    Returns:
        ``(B,)`` mean over the valid points of each pair; 0 for a pair without any.

    >>> flat = torch.zeros(1, 1, 16, 16)   # a circle of 5 cells, of 256 that are equally likely, costs ln 256/5
    >>> region_cross_entropy(flat, torch.tensor([[[7.0, 2.0]]]), torch.tensor([[1.0]]), torch.tensor([[True]]))
    tensor([3.9357])
    """
    scores = at_least_float(scores)
    columns, rows = (torch.arange(scores.shape[side], device=scores.device).to(scores.dtype) for side in (-1, -2))
    x, y = points.to(scores.dtype).unbind(dim=-1)
    apart = (rows - y[..., None]).square()[..., :, None] + (columns - x[..., None]).square()[..., None, :]
    inside = (apart <= radius.to(scores.dtype)[..., None, None].square()).flatten(2)
    counted = mask & inside.any(dim=2)
    # What is outside becomes the lowest number, not -inf: an empty circle then has a gradient that is finite.
    within = scores.flatten(2).masked_fill(~inside, torch.finfo(scores.dtype).min).logsumexp(dim=2)
    per_point = scores.flatten(2).logsumexp(dim=2) - within
    return per_point.masked_fill(~counted, 0.0).sum(dim=1) / counted.sum(dim=1).clamp(min=1)


def presence_cross_entropy(scores: Tensor, level: Tensor, mask: Tensor, present: bool) -> Tensor:
    """What it costs to see a counterpart where there is none, or none where there is one; beyond the paper.

    A further place, whose score is ``level``, stands for "nowhere": the probability of a counterpart is what a softmax
    over the map and that place leaves to the map.

    Args:
        scores: ``(B, N, h, w)`` score maps.
        level: ``(B,)`` score of the further place.
        mask: ``(B, N)`` which points are real.
        present: whether they have a counterpart.

    Returns:
        ``(B,)`` mean over the valid points of each pair; 0 for a pair without any.

    >>> flat = torch.zeros(1, 1, 1, 3)   # three cells and the further place, equally likely
    >>> presence_cross_entropy(flat, torch.zeros(1), torch.tensor([[True]]), present=False).exp()
    tensor([4.])
    """
    excess = at_least_float(scores).flatten(2).logsumexp(dim=2) - level[:, None]
    per_point = F.softplus(-excess if present else excess)
    return per_point.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def temperature_regularizer(beta: Tensor, threshold: float = 0.1) -> Tensor:
    """``max(0, log(threshold) - log(beta))``, mean over all temperatures (Eq. 6): keeps them from falling to 0.

    >>> temperature_regularizer(torch.tensor([0.5, 0.1, 0.1 / 2.718281828]))
    tensor(0.3333)
    """
    beta = at_least_float(beta)
    return F.relu(torch.log(beta.new_tensor(threshold)) - torch.log(beta)).mean()


def _square_gaussian(side: int, sigma: float) -> tuple[Tensor, Tensor]:
    steps = torch.arange(side, dtype=torch.float64) - (side - 1) / 2
    y, x = torch.meshgrid(steps, steps, indexing="ij")
    offsets = torch.stack([x, y], dim=-1).reshape(-1, 2)
    return offsets, torch.exp(-(offsets**2).sum(dim=-1) / (2 * sigma**2))


def _inside_weights(lattice: Tensor, weights: Tensor, size: tuple[int, int]) -> Tensor:
    """Weights ``(B, N, K)`` with those of lattice points outside the map moved to the points inside.

    The map reaches half a cell beyond the centres of its outermost cells.
    """
    limit = lattice.new_tensor([size[1] - 0.5, size[0] - 0.5])
    inside = ((lattice >= -0.5) & (lattice <= limit)).all(dim=-1)
    kept = weights * inside.to(weights.dtype)
    return kept * (weights.sum() / kept.sum(dim=-1, keepdim=True).clamp(min=1e-12))


def _sample_log_probability(scores: Tensor, lattice: Tensor, interpolate: Interpolation) -> Tensor:
    """Log-probabilities ``(B, N, K)`` at lattice points ``(B, N, K, 2)`` in cells."""
    log_probability = torch.log_softmax(scores.flatten(2), dim=2)
    cells, weights = neighbours(lattice, (scores.shape[-2], scores.shape[-1]))
    around = log_probability.gather(2, cells.flatten(2)).view_as(weights)
    if interpolate == "log-prob":
        return (weights * around).sum(dim=-1)
    # log(sum of w p) = logsumexp(log w + log p): never the logarithm of a probability that underflowed.
    return torch.logsumexp(around + weights.detach().log(), dim=-1)
