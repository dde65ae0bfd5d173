"""The interface of a matching head."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from simsc.matching.features import Features
from simsc.models.backbone import Backbone
from simsc.models.heads.levels import Level, probe_levels
from simsc.models.heads.refined import Refined
from simsc.models.temperature import PRETRAINED_TEMPERATURE


class Head(nn.Module, ABC):
    """Turns the features of two images into score maps.

    A subclass implements :meth:`refine`, and :meth:`prepare` where part of the work needs one image only. Its
    scores, before the temperature, should have about the range of a cosine similarity; the effective temperature of
    the pair then divides them, as it does without a head.

    Attributes:
        layers: backbone layers it wants besides the last map, ascending; they arrive as ``Features.layers``.
        levels: channels and relative size of those layers' maps and, at the end, of the last map.
        usual_temperature: effective temperature that suits its scores where none is learned.
    """

    layers: tuple[int, ...] = ()
    usual_temperature: float = PRETRAINED_TEMPERATURE

    def __init__(self, backbone: Backbone, layers: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.layers = tuple(sorted(set(layers)))
        self.levels: tuple[Level, ...] = probe_levels(backbone, self.layers)

    def prepare(self, features: Features) -> Features:
        """Do all that depends on single images; the model calls it once per image, however many pairs share it."""
        return features

    @abstractmethod
    def refine(self, source: Features, target: Features) -> Refined:
        """Do all that depends on two prepared images but not on query points; keep the result to ask it many times."""

    def score_maps(self, source: Features, target: Features, points: Tensor) -> Tensor:
        """Score maps ``(B, N, h, w)`` over the targets of points ``(B, N, 2)`` in cells, from backbone features."""
        return self.refine(self.prepare(source), self.prepare(target)).score_maps(points)
