"""HPF: hyperpixels with regularised Hough matching; needs no training (Min et al., ICCV 2019)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.errors import ConfigError
from simsc.matching.features import Features
from simsc.models.backbone import Backbone
from simsc.models.heads.base import Head
from simsc.models.heads.hough import hough_matching
from simsc.models.heads.levels import all_levels, resize_map, spread_layers
from simsc.models.heads.refined import RefinedScores, score_tensor, tempered

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

    def refine(self, source: Features, target: Features) -> RefinedScores:
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
