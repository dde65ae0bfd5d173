"""What is exported: functions of tensors only, with everything else fixed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from simsc.coordinates import Size, resize_points
from simsc.matching.confidence import peak_probability
from simsc.matching.localize import localize
from simsc.models.model import SimSC


class EncoderGraph(nn.Module):
    """Backbone and temperature: images ``(B, 3, H, W)`` in [0, 1] -> maps ``(B, C, h, w)``, beta ``(B, 1, 1)``."""

    inputs = ("images",)
    outputs = ("maps", "beta")

    def __init__(self, model: SimSC) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features of images; beta is ``(B, h, w)`` for a temperature per cell."""
        features = self.model.encode(images)
        return features.maps, features.beta


class MatcherGraph(nn.Module):
    """The whole matcher for two images of equal size and any number of points, all in pixels of the input."""

    inputs = ("source", "target", "points")
    outputs = ("matches", "confidence", "temperature")

    def __init__(self, model: SimSC, localizer: str = "kernel-soft-argmax") -> None:
        super().__init__()
        self.model, self.localizer = model, localizer

    def forward(self, source: Tensor, target: Tensor, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images ``(B, 3, H, W)``, points ``(B, N, 2)`` -> matches ``(B, N, 2)``, ``(B, N)`` and ``(B,)``."""
        first, second = self.model.encode(source), self.model.encode(target)
        scores = self.model.score_maps(first, second, points)
        cells = localize(scores, self.localizer)
        matches = resize_points(cells, second.map_size, second.image_size, self.model.convention)
        return matches, peak_probability(scores), first.temperature * second.temperature


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
