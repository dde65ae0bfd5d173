"""HPF: hyperpixels with regularised Hough matching; needs no training (Min et al., ICCV 2019)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.coordinates import Size
from simsc.errors import ConfigError
from simsc.matching.features import Features
from simsc.models.backbone import Backbone
from simsc.models.heads.base import Head, ScoreTensor, all_levels, resize_map, score_tensor, spread_layers, tempered

DEPTHS = (0.15, 0.55, 0.85, 0.92)
"""Default layers as fractions of the backbone's depth: 2, 7, 11 and 12 of a ResNet-50, beside its last map."""
EPS = 1e-12


class HPF(Head):
    """Similarity of hyperpixels, weighted by the votes for each match's offset.

    Args:
        backbone: where the levels come from.
        layers: layers used beside the last map; empty for the default choice.
        exponent: power of the similarities before they vote.
        sigma: smoothing of the votes, in cells.
    """

    usual_temperature = 0.05  # the best of a few tries on validation pairs, see docs/heads.md

    def __init__(
        self,
        backbone: Backbone,
        *,
        layers: tuple[int, ...] = (),
        exponent: float = 2.0,
        sigma: float = 1.0,
    ) -> None:
        super().__init__(backbone, layers or spread_layers(backbone, DEPTHS))
        if min(exponent, sigma) <= 0:
            raise ConfigError(f"exponent = {exponent} and sigma = {sigma} of a voting head must be greater than 0")
        self.exponent, self.sigma = exponent, sigma

    def scorer(self, source: Features, target: Features) -> ScoreTensor:
        """Scores relative to the best of each source cell, in [0, 1], then divided by the temperatures."""
        similarity = score_tensor(self.hyperpixels(source), self.hyperpixels(target))
        voted = hough_matching(self.match(F.relu(similarity) ** self.exponent), self.sigma)
        return tempered(relative_to_best(voted), source, target)

    def match(self, similarity: Tensor) -> Tensor:
        """Match scores ``(B, h_A, w_A, h_B, w_B)`` that vote: here the similarities themselves."""
        return similarity

    def hyperpixels(self, features: Features) -> Tensor:
        """All levels at the size of the last map, one after the other along channels: ``(B, sum of C_i, h, w)``."""
        return torch.cat([resize_map(level, features.map_size) for level in all_levels(features)], dim=1)


def relative_to_best(scores: Tensor) -> Tensor:
    """Scores ``(B, h_A, w_A, h_B, w_B)`` divided by the best of their source cell.

    >>> relative_to_best(torch.tensor([0.1, 0.4]).reshape(1, 1, 1, 1, 2)).flatten()
    tensor([0.2500, 1.0000])
    """
    return scores / scores.amax(dim=(3, 4), keepdim=True).clamp(min=EPS)


def hough_matching(scores: Tensor, sigma: float) -> Tensor:
    """Multiply each score by the smoothed vote for its offset, relative to the strongest vote.

    Args:
        scores: ``(B, h_A, w_A, h_B, w_B)``, not negative.
        sigma: standard deviation, in cells, of the Gaussian that smooths the votes.

    Returns:
        The same shape; no entry grows.
    """
    index = offset_index(_source_size(scores), _target_size(scores), scores.device)
    votes = smooth(hough_votes(scores), sigma).flatten(1)
    votes = votes / votes.amax(dim=1, keepdim=True).clamp(min=EPS)
    result: Tensor = scores * votes[:, index].unflatten(1, scores.shape[1:])
    return result


def hough_votes(scores: Tensor) -> Tensor:
    """Sum of the scores of all matches with the same offset: ``(B, h_A + h_B - 1, w_A + w_B - 1)``.

    The vote for the offset (dx, dy) stands in row ``dy + h_A - 1``, column ``dx + w_A - 1``.

    >>> same_place = torch.eye(4).reshape(1, 2, 2, 2, 2)
    >>> hough_votes(same_place)[0]
    tensor([[0., 0., 0.],
            [0., 4., 0.],
            [0., 0., 0.]])
    """
    source, target = _source_size(scores), _target_size(scores)
    bins = (source[0] + target[0] - 1, source[1] + target[1] - 1)
    index = offset_index(source, target, scores.device)
    votes = scores.new_zeros(scores.shape[0], bins[0] * bins[1])
    result: Tensor = votes.index_add(1, index, scores.flatten(1)).unflatten(1, bins)
    return result


def offset_index(source: Size, target: Size, device: torch.device | None = None) -> Tensor:
    """Bin of the offset of every match, ``(h_A * w_A * h_B * w_B,)``."""
    rows = _differences(source[0], target[0], device)
    columns = _differences(source[1], target[1], device)
    width = source[1] + target[1] - 1
    return (rows[:, None, :, None] * width + columns[None, :, None, :]).flatten()


def smooth(votes: Tensor, sigma: float) -> Tensor:
    """Votes ``(B, H, W)`` under a separable Gaussian of standard deviation ``sigma`` cells; zero outside."""
    radius = math.ceil(3 * sigma)
    steps = torch.arange(-radius, radius + 1, device=votes.device, dtype=votes.dtype)
    kernel = torch.exp(-(steps**2) / (2 * sigma**2))
    kernel = kernel / kernel.sum()
    across = F.conv2d(votes[:, None], kernel.view(1, 1, 1, -1), padding=(0, radius))
    return F.conv2d(across, kernel.view(1, 1, -1, 1), padding=(radius, 0))[:, 0]


def _differences(source: int, target: int, device: torch.device | None) -> Tensor:
    """``(source, target)`` of target minus source, from 0 on."""
    cells = torch.arange(max(source, target), device=device)
    return cells[None, :target] - cells[:source, None] + source - 1


def _source_size(scores: Tensor) -> Size:
    return scores.shape[1], scores.shape[2]


def _target_size(scores: Tensor) -> Size:
    return scores.shape[3], scores.shape[4]
