"""From a score map to one point and how sure it is: the localisers (Sec. 3.4 of the paper).

All take scores ``(B, N, h, w)`` and give points ``(B, N, 2)`` xy in cells. ``beta`` is an extra temperature for models
that have not learned one (the paper's beta_eval); scores of SimSC are already scaled, so it is 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from simsc.matching import LOCALIZERS
from simsc.matching.features import at_least_float

KERNEL_SIGMA = 7.0
WINDOW = 5


def argmax(scores: Tensor, beta: float = 1.0) -> Tensor:  # noqa: ARG001 - a scale does not move the maximum
    """The best cell; not differentiable, no sub-cell precision.

    >>> argmax(torch.tensor([[[[0.0, 0.0, 5.0], [0.0, 1.0, 0.0]]]])).tolist()
    [[[2.0, 0.0]]]
    """
    best = scores.flatten(2).argmax(dim=2)
    width = scores.shape[-1]
    return torch.stack([best % width, best // width], dim=-1).to(torch.promote_types(scores.dtype, torch.float32))


def soft_argmax(scores: Tensor, beta: float = 1.0) -> Tensor:
    """Expected position under the softmax of the whole map.

    >>> soft_argmax(torch.zeros(1, 1, 3, 5)).tolist()
    [[[2.0, 1.0]]]
    """
    return _expectation(at_least_float(scores) / beta)


def kernel_soft_argmax(scores: Tensor, beta: float = 1.0, sigma: float = KERNEL_SIGMA) -> Tensor:
    """Expected position after multiplying the scores with a Gaussian around the best cell (Eq. 9 and 10).

    Args:
        scores: ``(B, N, h, w)``.
        beta: evaluation temperature.
        sigma: standard deviation of the Gaussian, in cells.

    The Gaussian pulls far scores to 0, so the best score should be positive, as a cosine similarity practically is.

    >>> scores = torch.zeros(1, 1, 5, 5)
    >>> scores[0, 0, 3, 1:3] = 100.0   # two equal peaks side by side: half-way, a little nearer to the first
    >>> kernel_soft_argmax(scores).tolist()
    [[[1.26..., 3.0]]]
    """
    scores = at_least_float(scores)
    peak = argmax(scores)
    kernel_x = _gaussian(scores.shape[-1], peak[..., 0], sigma)
    kernel_y = _gaussian(scores.shape[-2], peak[..., 1], sigma)
    return _expectation(scores * (kernel_y / beta)[..., :, None] * kernel_x[..., None, :])


def window_soft_argmax(scores: Tensor, beta: float = 1.0, window: int = WINDOW) -> Tensor:
    """Expected position under the softmax of the ``window x window`` (odd) cells around the best one.

    >>> scores = torch.zeros(1, 1, 1, 9)
    >>> scores[..., 6] = scores[..., 0] = 50.0
    >>> window_soft_argmax(scores).round().tolist(), soft_argmax(scores).tolist()   # one peak, or the middle of both
    ([[[0.0, 0.0]]], [[[3.0, 0.0]]])
    """
    return around_best(scores, scores.flatten(2).argmax(dim=2), beta, window)


def around_best(scores: Tensor, best: Tensor, beta: float = 1.0, window: int = WINDOW) -> Tensor:
    """:func:`window_soft_argmax` where the best cells ``(B, N)``, row by row, are known: it looks at no others."""
    scores = at_least_float(scores)
    height, width = scores.shape[-2:]
    reach = torch.arange(window, device=best.device) - window // 2
    columns, rows = (best % width)[..., None] + reach, (best // width)[..., None] + reach
    cells = rows.clamp(0, height - 1)[..., :, None] * width + columns.clamp(0, width - 1)[..., None, :]
    near = scores.flatten(2).gather(2, cells.flatten(2)) / beta
    inside = _below(rows, height)[..., :, None] & _below(columns, width)[..., None, :]
    probability = near.masked_fill(~inside.flatten(2), float("-inf")).softmax(dim=2).unflatten(2, (window, window))
    across, down = probability.sum(dim=-2), probability.sum(dim=-1)
    return torch.stack([(across * columns).sum(dim=-1), (down * rows).sum(dim=-1)], dim=-1)


def localize(scores: Tensor, method: str = "kernel-soft-argmax", beta: float = 1.0) -> Tensor:
    """Points ``(B, N, 2)`` in cells by the localiser of that name, one of :data:`simsc.matching.LOCALIZERS`."""
    return LOCALIZERS[method](scores, beta=beta)


def peak_probability(scores: Tensor, beta: float = 1.0) -> Tensor:
    """Highest probability of the softmax of each score map ``(B, N, h, w)``: ``(B, N)`` in ``[1 / (hw), 1]``.

    >>> peak_probability(torch.zeros(1, 1, 2, 2)).item()
    0.25
    """
    return torch.softmax(at_least_float(scores).flatten(2) / beta, dim=2).amax(dim=2)


def _expectation(logits: Tensor) -> Tensor:
    probability = torch.softmax(logits.flatten(2), dim=2).unflatten(2, logits.shape[-2:])
    columns = torch.arange(logits.shape[-1], device=logits.device, dtype=logits.dtype)
    rows = torch.arange(logits.shape[-2], device=logits.device, dtype=logits.dtype)
    return torch.stack([probability.sum(dim=-2) @ columns, probability.sum(dim=-1) @ rows], dim=-1)


def _gaussian(length: int, centre: Tensor, sigma: float) -> Tensor:
    """``(B, N, length)`` values of a Gaussian with peak 1 around ``centre (B, N)``."""
    cells = torch.arange(length, device=centre.device, dtype=centre.dtype)
    return torch.exp(-((cells - centre[..., None]) ** 2) / (2 * sigma**2))


def _below(cells: Tensor, length: int) -> Tensor:
    """Which of these rows or columns a map of that length has."""
    return (cells >= 0) & (cells < length)
