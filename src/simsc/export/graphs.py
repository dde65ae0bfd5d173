"""What is exported: functions of tensors only, with everything else fixed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from simsc.coordinates import Size, resize_points
from simsc.matching.dense import dense_match
from simsc.matching.localize import localize, peak_probability
from simsc.models.trained import Trained


class EncoderGraph(nn.Module):
    """Backbone and temperature: images ``(B, 3, H, W)`` in [0, 1] -> maps ``(B, C, h, w)``, beta ``(B, 1, 1)``."""

    inputs = ("images",)
    outputs = ("maps", "beta")

    def __init__(self, trained: Trained) -> None:
        super().__init__()
        self.model = trained.network

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features of images; beta is ``(B, h, w)`` for a temperature per cell."""
        features = self.model.encode(images)
        return features.maps, features.beta

    def expected(self, images: Tensor) -> tuple[Tensor, ...]:
        """The same, image by image."""
        each = [self(image[None]) for image in images]
        return tuple(torch.cat(parts) for parts in zip(*each, strict=True))


class MatcherGraph(nn.Module):
    """The whole matcher for two images of equal size and any number of points, all in pixels of the input.

    Each point for itself: the votes of the matches around it (:mod:`simsc.matching.coherence`) are left out.
    """

    inputs = ("source", "target", "points")
    outputs = ("matches", "confidence", "temperature")

    def __init__(self, trained: Trained) -> None:
        super().__init__()
        self.model = trained.described(coherent=False).network
        self.localizer, self.beta_eval = trained.localizer, trained.beta_eval

    def forward(self, source: Tensor, target: Tensor, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images ``(B, 3, H, W)``, points ``(B, N, 2)`` -> matches ``(B, N, 2)``, ``(B, N)`` and ``(B,)``."""
        first, second = self.model.encode(source), self.model.encode(target)
        scores = self.model.score_maps(first, second, points)
        cells = localize(scores, self.localizer, self.beta_eval)
        matches = resize_points(cells, second.map_size, second.image_size, self.model.convention)
        temperature = first.temperature * second.temperature * self.beta_eval
        return matches, peak_probability(scores, self.beta_eval), temperature

    def expected(self, source: Tensor, target: Tensor, points: Tensor) -> tuple[Tensor, ...]:
        """The same by the way that matching takes outside of this graph, as :func:`dense_match` of each pair."""
        return tuple(torch.cat(parts) for parts in zip(*map(self._match, source, target, points), strict=True))

    def _match(self, source: Tensor, target: Tensor, points: Tensor) -> tuple[Tensor, ...]:
        first, second = self.model.encode(source[None]), self.model.encode(target[None])
        convention, scorer = self.model.convention, self.model.scorer(first, second)
        cells = resize_points(points, first.image_size, first.map_size, convention)[None, :, None]
        found = dense_match(first, second, cells, score_maps=scorer, localizer=self.localizer, beta=self.beta_eval)
        matches = resize_points(found.points[:, :, 0], second.map_size, second.image_size, convention)
        return matches, found.confidence[:, :, 0], first.temperature * second.temperature * self.beta_eval


def sample_inputs(graph: nn.Module, size: Size, batch: int = 2, points: int = 5, seed: int = 0) -> tuple[Tensor, ...]:
    """Inputs for tracing and for checking: smooth random images, and points inside of them."""
    generator = torch.Generator().manual_seed(seed)

    def images() -> Tensor:
        coarse = torch.rand(batch, 3, 9, 9, generator=generator)
        return nn.functional.interpolate(coarse, size=size, mode="bilinear", align_corners=False)

    if isinstance(graph, EncoderGraph):
        return (images(),)
    extent = torch.tensor([size[1] - 1.0, size[0] - 1.0])
    return images(), images(), torch.rand(batch, points, 2, generator=generator) * extent
