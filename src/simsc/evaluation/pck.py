"""PCK, the percentage of correct key-points, as pure functions (Sec. 4.1 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from simsc.errors import ConfigError, unknown_name

Threshold = Literal["img", "kps", "bbox"]
ALPHAS = (0.01, 0.05, 0.1, 0.15)


def threshold_base(
    kind: Threshold, *, points: Tensor, mask: Tensor, image_size: Tensor | None = None, boxes: Tensor | None = None
) -> Tensor:
    """The length theta that alpha is a fraction of, one per pair: ``(B,)``.

    Args:
        kind: ``img`` larger side of the target image, ``kps`` larger side of the extent of the target's key-points,
            ``bbox`` larger side of the target's box.
        points: ``(B, N, 2)`` true target points.
        mask: ``(B, N)`` which points are real; padding never counts into the extent.
        image_size: ``(B, 2)`` height and width, for ``img``.
        boxes: ``(B, 4)`` x0, y0, x1, y1, for ``bbox``.

    >>> points, mask = torch.tensor([[[2.0, 3.0], [12.0, 7.0], [0.0, 0.0]]]), torch.tensor([[True, True, False]])
    >>> threshold_base("kps", points=points, mask=mask)
    tensor([10.])
    """
    if kind == "img" and image_size is not None:
        return image_size.amax(dim=1).to(points.dtype)
    if kind == "bbox" and boxes is not None:
        return (boxes[:, 2:] - boxes[:, :2]).amax(dim=1)
    if kind == "kps":
        low = points.masked_fill(~mask[..., None], float("inf")).amin(dim=1)
        high = points.masked_fill(~mask[..., None], float("-inf")).amax(dim=1)
        return (high - low).amax(dim=1)
    if kind not in get_args(Threshold):
        raise ConfigError(unknown_name("PCK threshold", kind, get_args(Threshold)))
    raise ConfigError(f"PCK threshold '{kind}' needs {'image sizes' if kind == 'img' else 'boxes'}")


def correct_points(
    predicted: Tensor, truth: Tensor, mask: Tensor, base: Tensor, alphas: Sequence[float] = ALPHAS, strict: bool = False
) -> Tensor:
    """Which predictions lie within ``alpha * base`` of the truth: ``(B, N, A)`` bool, ``False`` for padding.

    Args:
        predicted, truth: ``(B, N, 2)`` in the same frame.
        mask: ``(B, N)``.
        base: ``(B,)`` from :func:`threshold_base`.
        alphas: fractions.
        strict: ``<`` instead of ``<=``.
    """
    distance = torch.linalg.vector_norm(predicted.double() - truth.double(), dim=-1)[..., None]
    limit = base.double()[:, None, None] * torch.tensor(alphas, dtype=torch.float64, device=base.device)
    near: Tensor = distance < limit if strict else distance <= limit
    return near & mask[..., None]


def pck(correct: Tensor, mask: Tensor) -> Tensor:
    """PCK of each pair ``(B, A)``: the share of its valid points that is correct; NaN for a pair without points.

    Args:
        correct: ``(B, N, A)`` from :func:`correct_points`.
        mask: ``(B, N)``.

    >>> truth, mask = torch.zeros(1, 2, 2), torch.ones(1, 2, dtype=torch.bool)
    >>> predicted = torch.tensor([[[0.0, 5.0], [0.0, 11.0]]])
    >>> pck(correct_points(predicted, truth, mask, torch.tensor([100.0]), [0.05, 0.1, 0.15]), mask).tolist()
    [[0.5, 0.5, 1.0]]
    """
    return correct.sum(dim=1).double() / mask.sum(dim=1)[:, None].double()
