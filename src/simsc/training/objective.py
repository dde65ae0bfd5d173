"""The loss of a batch as one module, so that distributed training can wrap it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simsc.coordinates import Size, resize_points
from simsc.losses import (
    gaussian_cross_entropy,
    presence_cross_entropy,
    region_cross_entropy,
    temperature_regularizer,
)
from simsc.matching.features import Features
from simsc.models.model import SimSC, State
from simsc.training.batches import PairBatch, points_between
from simsc.training.config import Config
from simsc.training.teacher import SHARE

LEAST_RADIUS = 1.5
"""Cells around a roughly known counterpart that are right at least."""
NOWHERE = 0.7
"""Similarity that a counterpart should exceed and everything stay below where there is none."""


@dataclass(frozen=True)
class LossParts:
    """Loss of a batch and what it consists of; all scalars, sums over pairs (divide by ``pairs`` for means).

    ``feature_norm`` is the largest feature value, which is 0 when all features are dead.
    """

    total: Tensor
    cross_entropy: Tensor
    regularizer: Tensor
    beta_source: Tensor
    beta_target: Tensor
    temperature: Tensor
    pairs: Tensor
    feature_norm: Tensor


class PairObjective(nn.Module):
    """Cross-entropy plus temperature regulariser of a batch (Eq. 7 of the paper), summed over pairs.

    Sums, not means: processes that hold different numbers of pairs can then be averaged exactly.
    """

    def __init__(self, model: SimSC, config: Config) -> None:
        super().__init__()
        self.model, self.config = model, config

    def forward(self, state: State, image_size: Size, batch: PairBatch, lessons: PairBatch | None = None) -> LossParts:
        """Loss of a batch from the trunk states ``(M, ...)`` of its unique images, and of a teacher's lessons on it."""
        features = self.model.encode_state(state, image_size)
        entropy = self._cross_entropy(features, batch)
        if self.config.both_directions:
            entropy = (entropy + self._cross_entropy(features, batch.swapped())) / 2
        source, target = (features.temperature[side] for side in (batch.source, batch.target))
        counted = batch.mask.any(dim=1).to(entropy.dtype)
        pairs = counted.sum()
        betas = torch.stack([features.beta[batch.source], features.beta[batch.target]])
        regularizer = temperature_regularizer(betas, self.config.beta_threshold)
        cross_entropy = (entropy * counted).sum()
        total = cross_entropy + self.config.gamma * regularizer * pairs
        if lessons is not None:
            scores = self.model.pair_scores(features, lessons.source, lessons.target, lessons.source_points)
            total = total + self.config.taught / SHARE * self._exact(features, scores, lessons).sum()
        return LossParts(
            total=total,
            cross_entropy=cross_entropy.detach(),
            regularizer=(regularizer * pairs).detach(),
            beta_source=(source * counted).sum().detach(),
            beta_target=(target * counted).sum().detach(),
            temperature=(source * target * counted).sum().detach(),
            pairs=pairs,
            feature_norm=torch.stack(torch.aminmax(features.maps.detach())).abs().amax(),
        )

    def _cross_entropy(self, images: Features, batch: PairBatch) -> Tensor:
        """Per pair ``(B,)``."""
        scores = self.model.pair_scores(images, batch.source, batch.target, batch.source_points)
        entropy = self._exact(images, scores, batch)
        if self.config.between:
            entropy = entropy + self.config.between * self._rough(images, batch)
        if self.config.absent:
            entropy = entropy + self.config.absent * self._presence(images, scores, batch)
        return entropy

    def _exact(self, images: Features, scores: Tensor, batch: PairBatch) -> Tensor:
        """Per pair ``(B,)``: score maps ``(B, N, h, w)`` against where the points are (Eq. 3)."""
        cells = resize_points(batch.target_points, images.image_size, images.map_size, self.model.convention)
        return gaussian_cross_entropy(
            scores,
            cells,
            batch.mask,
            region=self.config.region,
            kernel=self.config.kernel,
            interpolate=self.config.interpolate,  # type: ignore[arg-type]
            normalize_target=self.config.normalize_target,
        )

    def _presence(self, images: Features, scores: Tensor, batch: PairBatch) -> Tensor:
        """Per pair ``(B,)``: whether points have a counterpart at all, known ones and those that stand alone."""
        level = NOWHERE / (images.temperature[batch.source] * images.temperature[batch.target])
        cost = presence_cross_entropy(scores, level, batch.mask, present=True)
        if batch.alone is None or batch.alone_mask is None or not batch.alone.shape[1]:
            return cost
        alone = self.model.pair_scores(images, batch.source, batch.target, batch.alone)
        return cost + presence_cross_entropy(alone, level, batch.alone_mask, present=False)

    def _rough(self, images: Features, batch: PairBatch) -> Tensor:
        """Per pair ``(B,)``: points between key-points must be found somewhere near where they are thought to be."""
        between = points_between(batch)
        scores = self.model.pair_scores(images, batch.source, batch.target, between.source_points)
        cells = resize_points(between.target_points, images.image_size, images.map_size, self.model.convention)
        radius = between.radius * (images.map_size[0] / images.image_size[0])
        return region_cross_entropy(scores, cells, radius.clamp(min=LEAST_RADIUS), between.mask)
