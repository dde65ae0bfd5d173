"""What a head gives: refined features or a refined score tensor, ready to be asked for any points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from simsc.matching.features import Features
from simsc.matching.scores import at_least_float, query_scores, sample_map, unit_features


class Refined(Protocol):
    """The state of a head after both images were seen."""

    def score_maps(self, points: Tensor) -> Tensor:
        """Score maps ``(B, N, h, w)`` of points ``(B, N, 2)`` in cells of the source maps, temperature applied."""


@dataclass(frozen=True)
class RefinedFeatures:
    """Features that a head has adapted; scores are their cosine similarity over the temperatures.

    Attributes:
        source, target: ``maps`` are the adapted ones, ``beta`` stays that of the backbone's features.
    """

    source: Features
    target: Features

    def score_maps(self, points: Tensor) -> Tensor:
        """Score maps ``(B, N, h, w)`` of points ``(B, N, 2)`` in cells."""
        source, target = self.source, self.target
        return query_scores(source.maps, target.maps, points, source.beta, target.beta)


@dataclass(frozen=True)
class RefinedScores:
    """A score tensor ``(B, h_A, w_A, h_B, w_B)``, of the maps' sizes, that is already divided by the temperatures."""

    tensor: Tensor

    def score_maps(self, points: Tensor) -> Tensor:
        """Bilinear interpolation over the source dimensions: ``(B, N, h_B, w_B)``."""
        by_target = self.tensor.flatten(3).permute(0, 3, 1, 2)
        return sample_map(by_target, points).unflatten(2, self.tensor.shape[-2:])


def score_tensor(source: Tensor, target: Tensor) -> Tensor:
    """All cosine similarities ``(B, h_A, w_A, h_B, w_B)`` of features ``(B, C, h, w)``, in at least float32.

    >>> features = torch.eye(2).reshape(1, 2, 1, 2)
    >>> score_tensor(features, features).flatten().tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    with torch.autocast(device_type=source.device.type, enabled=False):
        unit_source, unit_target = unit_features(source).flatten(2), unit_features(target).flatten(2)
        scores = unit_source.transpose(1, 2) @ unit_target
    return scores.unflatten(2, target.shape[-2:]).unflatten(1, source.shape[-2:])


def tempered(scores: Tensor, source: Features, target: Features) -> RefinedScores:
    """Divide a score tensor ``(B, h_A, w_A, h_B, w_B)`` by both temperatures, per image or per cell."""
    scores = at_least_float(scores)
    source_beta = source.beta.to(scores.dtype)[..., None, None]
    target_beta = target.beta.to(scores.dtype)[:, None, None]
    return RefinedScores(scores / source_beta / target_beta)
