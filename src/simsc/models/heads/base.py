"""What a matching head is, and what heads are made of: levels of a backbone and score tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simsc.coordinates import Size
from simsc.errors import ConfigError
from simsc.matching.coherence import Votes
from simsc.matching.features import Features, at_least_float, sample_map
from simsc.matching.scores import ScoreMaps, unit_features
from simsc.models.backbone import Backbone
from simsc.models.temperature import PRETRAINED_TEMPERATURE

PROBE_CELLS = 2  # side of the map of the picture that levels are probed with


@dataclass(frozen=True)
class Asked:
    """Points of one source, read as far as that needs no target.

    Attributes:
        source: features of the image, a batch of 1.
        cells: ``(n, 2)`` xy in cells of its map.
        features: ``(n, C)`` of the points, where a head compares features.
        votes: of the source over the target that is asked, where a head is coherent and they have been cast before.
    """

    source: Features
    cells: Tensor
    features: Tensor | None = None
    votes: Votes | None = None


class Head(nn.Module, ABC):
    """Turns the features of two images into score maps: the one door to them.

    A subclass implements :meth:`scorer`, and :meth:`prepare` where part of the work needs one image only; the other
    ways through the door it may override with faster ones. Its scores, before the temperature, should have about the
    range of a cosine similarity; the effective temperature of the pair divides them.

    Attributes:
        layers: backbone layers it wants besides the last map, ascending; they arrive as ``Features.layers``.
        channels: of its prepared maps.
        levels: channels and relative size of those layers' maps and, at the end, of the last map.
        usual_temperature: effective temperature that suits its scores where none is learned.
        compares_features: whether its scores are products of features, so that a query is a feature.
        coherent: whether those are lowered where the matches around a point would not have it, see
            :mod:`simsc.matching.coherence`; a model's card says so, and training does without.
    """

    layers: tuple[int, ...] = ()
    usual_temperature: float = PRETRAINED_TEMPERATURE
    compares_features: bool = False
    coherent: bool = False

    def __init__(self, backbone: Backbone, layers: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.layers = tuple(sorted(set(layers)))
        self.channels = backbone.channels
        self.levels: tuple[Level, ...] = probe_levels(backbone, self.layers)

    def prepare(self, features: Features) -> Features:
        """Do all that depends on single images; the model calls it once per image, however many pairs share it."""
        return features

    @abstractmethod
    def scorer(self, source: Features, target: Features) -> ScoreMaps:
        """Score maps of two prepared images, temperature applied, as a function of points ``(B, N, 2)`` in cells.

        All that depends on the images but not on the points is done here, once.
        """

    def scorers(self, first: Features, second: Features) -> tuple[ScoreMaps, ScoreMaps]:
        """:meth:`scorer` from the first images to the second ones, and back."""
        return self.scorer(first, second), self.scorer(second, first)

    def score_pairs(self, images: Features, source: Tensor, target: Tensor, cells: Tensor) -> Tensor:
        """Score maps ``(P, N, h, w)`` of pairs of prepared images, for training.

        ``source`` and ``target`` are the index ``(P,)`` of each pair's images, ``cells`` ``(P, N, 2)`` in the sources.
        """
        return self.scorer(images.select(source), images.select(target))(cells)

    def read(self, source: Features, cells: Sequence[Tensor]) -> list[Asked]:
        """Several lists of points ``(n_i, 2)`` of one prepared image, to be scored over any targets, for evaluation."""
        return [Asked(source, each) for each in cells]

    def score(self, asked: Sequence[Asked], target: Features) -> Tensor:
        """Score maps ``(1, Q, h, w)`` of the points of any number of sources over one target."""
        return torch.cat([self.scorer(each.source, target)(each.cells[None]) for each in asked], dim=1)

    def score_maps(self, source: Features, target: Features, points: Tensor) -> Tensor:
        """Score maps ``(B, N, h, w)`` over the targets of points ``(B, N, 2)`` in cells, from backbone features."""
        return self.scorer(self.prepare(source), self.prepare(target))(points)


@dataclass(frozen=True)
class ScoreTensor:
    """Score maps from a tensor ``(B, h_A, w_A, h_B, w_B)`` of the maps' sizes, already divided by the temperatures."""

    tensor: Tensor

    def __call__(self, points: Tensor) -> Tensor:
        """Bilinear interpolation over the source dimensions: ``(B, N, h_B, w_B)``."""
        by_target = self.tensor.flatten(3).permute(0, 3, 1, 2)
        result: Tensor = sample_map(by_target, points).unflatten(2, self.tensor.shape[-2:])
        return result


def score_tensor(source: Tensor, target: Tensor) -> Tensor:
    """All cosine similarities ``(B, h_A, w_A, h_B, w_B)`` of features ``(B, C, h, w)``, in at least float32.

    >>> features = torch.eye(2).reshape(1, 2, 1, 2)
    >>> score_tensor(features, features).flatten().tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    with torch.autocast(device_type=source.device.type, enabled=False):
        unit_source, unit_target = unit_features(source).flatten(2), unit_features(target).flatten(2)
        scores = unit_source.transpose(1, 2) @ unit_target
    result: Tensor = scores.unflatten(2, target.shape[-2:]).unflatten(1, source.shape[-2:])
    return result


def tempered(scores: Tensor, source: Features, target: Features) -> ScoreTensor:
    """Divide a score tensor ``(B, h_A, w_A, h_B, w_B)`` by both temperatures, per image or per cell."""
    scores = at_least_float(scores)
    source_beta = source.beta.to(scores.dtype)[..., None, None]
    target_beta = target.beta.to(scores.dtype)[:, None, None]
    return ScoreTensor(scores / source_beta / target_beta)


@dataclass(frozen=True)
class Level:
    """Map of one layer.

    Attributes:
        channels: C of ``(B, C, h, w)``.
        scale: its height or width divided by that of the backbone's last map; 4 for the first stage of a ResNet.
    """

    channels: int
    scale: float


def probe_levels(backbone: Backbone, layers: Sequence[int]) -> tuple[Level, ...]:
    """The levels of ``layers`` and of the last map, found out by running one tiny picture through the backbone."""
    if bad := [layer for layer in layers if not 0 <= layer < backbone.num_blocks]:
        raise ConfigError(
            f"{backbone.spec.name} has no layer {bad[0]} for a head: allowed are 0 to {backbone.num_blocks - 1}, "
            "the last map is always there"
        )
    if not layers:
        return (Level(backbone.channels, 1.0),)
    side = PROBE_CELLS * backbone.stride
    was_training = backbone.training
    backbone.eval()  # the probe must not move BatchNorm's statistics
    with torch.no_grad():
        maps = backbone.layers(backbone.mean.new_zeros(1, 3, side, side), [*layers, backbone.num_blocks])
    backbone.train(was_training)
    last = maps[-1].shape[-1]
    return tuple(Level(level.shape[1], level.shape[-1] / last) for level in maps)


def spread_layers(backbone: Backbone, fractions: Sequence[float]) -> tuple[int, ...]:
    """Layers at the given fractions of a backbone's depth, the same choice for any architecture."""
    layers = {round(fraction * backbone.num_blocks) for fraction in fractions}
    return tuple(sorted(layers - {backbone.num_blocks}))


def all_levels(features: Features) -> tuple[Tensor, ...]:
    """Maps of all levels ``(B, C_i, h_i, w_i)``, the last map at the end."""
    return (*features.layers, features.maps)


def resize_map(maps: Tensor, size: Size) -> Tensor:
    """Maps ``(B, C, h, w)`` at another size, antialiased bilinear, borders aligned; in at least float32.

    >>> resize_map(torch.tensor([[[[0.0, 2.0], [4.0, 6.0]]]]), (1, 1))
    tensor([[[[3.]]]])
    """
    maps = at_least_float(maps)
    if tuple(maps.shape[-2:]) == tuple(size):
        return maps
    return F.interpolate(maps, size=tuple(size), mode="bilinear", antialias=True)
