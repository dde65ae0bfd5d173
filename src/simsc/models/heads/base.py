"""The interface of a matching head, and the registry of heads by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from simsc.errors import ConfigError, unknown_name
from simsc.matching.features import Features
from simsc.models.backbones import Backbone


class Head(nn.Module, ABC):
    """Turns the features of two images into score maps.

    Attributes:
        layers: backbone layers it wants besides the last map, ascending; they arrive as ``Features.layers``.
    """

    layers: tuple[int, ...] = ()

    @abstractmethod
    def score_maps(self, source: Features, target: Features, points: Tensor) -> Tensor:
        """Score maps ``(B, N, h, w)`` over the targets of points ``(B, N, 2)`` in cells of the source maps."""


HEADS: dict[str, Callable[[Backbone], Head]] = {}


def build_head(name: str, backbone: Backbone) -> Head | None:
    """The head of that name, or None for ``none``."""
    if name == "none":
        return None
    if name not in HEADS:
        raise ConfigError(unknown_name("head", name, ("none", *HEADS)))
    return HEADS[name](backbone)
