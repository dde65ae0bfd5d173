"""Images on their way into the network, what it says about them, and the scores of two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Union

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import Convention, Size, flip_points, resize_points
from simsc.errors import ConfigError
from simsc.frames import Frame, aspect_frame, square_frame
from simsc.matching.coherence import Coherent, Expected, shares_of
from simsc.matching.dense import DenseMatch, chunk_size, dense_match
from simsc.matching.features import Features
from simsc.matching.localize import localize, peak_probability
from simsc.matching.scores import ScoreMaps, query_scores
from simsc.matching.signals import coherence_signals, distinctness, map_signals
from simsc.models.model import SimSC

if TYPE_CHECKING:
    from PIL import Image

ImageLike = Union[str, Path, bytes, "Image.Image", np.ndarray, Tensor]
"""Whatever :func:`simsc.images.read_image` reads."""

Encoder = Callable[[Tensor], Features]
"""From inputs ``(B, 3, H, W)`` in [0, 1] to features."""

MAX_CELLS = 128 * 128
"""Larger inputs are refused: the scores of one image's cells over another's would not fit in memory."""


@dataclass(frozen=True)
class EncodedImage:
    """An image that the network has seen; give it to a matcher in the place of the image itself.

    Attributes:
        features: of the image, a batch of 1.
        frame: how the image entered the network.
        flipped: features of the mirrored image, for the flipped ensemble and for opposite viewpoints.
        mirrored: whether ``features`` are those of the mirrored image; points are those of the image as shown.
    """

    features: Features
    frame: Frame
    flipped: Features | None = None
    mirrored: bool = False

    @property
    def size(self) -> Size:
        """``(height, width)`` of the image as shown."""
        return self.frame.original

    def to_cells(self, points: np.ndarray) -> Tensor:
        """Pixels ``(n, 2)`` of the image as shown in cells of its feature map."""
        frame, features = self.frame, self.features
        points = flip_points(points, self.size[1]) if self.mirrored else points
        cells = resize_points(frame.to_network(points), frame.canvas, features.map_size, frame.convention)
        return torch.from_numpy(cells).to(features.maps.device, torch.float32)

    def from_cells(self, cells: Tensor) -> np.ndarray:
        """Cells ``(..., 2)`` of the feature map in pixels of the image as shown."""
        frame, exact = self.frame, cells.cpu().numpy().astype(np.float64)
        points = frame.to_original(resize_points(exact, self.features.map_size, frame.canvas, frame.convention))
        return flip_points(points, self.size[1]) if self.mirrored else points

    def in_mirror(self) -> EncodedImage:
        """The same image with the features of its mirror image; needs to have been encoded with it."""
        if self.flipped is None:
            raise ConfigError("the source was encoded without its mirror image; encode it with mirror=True")
        return replace(self, features=self.flipped, flipped=self.features, mirrored=not self.mirrored)

    def at_temperature(self, effective: float | None) -> EncodedImage:
        """The same image at a fixed effective temperature of its pairs; None changes nothing."""
        if effective is None:
            return self
        flipped = None if self.flipped is None else self.flipped.at_temperature(effective)
        return replace(self, features=self.features.at_temperature(effective), flipped=flipped)


class Located(NamedTuple):
    """Matches of points.

    Attributes:
        points: ``(n, 2)`` in cells of the target.
        peak: ``(n,)`` peak probability.
        signals: ``(n, 4)`` of :func:`simsc.matching.signals.map_signals`, 11 with coherence.
    """

    points: Tensor
    peak: Tensor
    signals: Tensor


class PairScorer:
    """Score maps over the target as a function of points in cells of the source.

    With ``flip``, the mirrored pair is matched too and its score maps, mirrored back, are averaged with the others.
    Scores are divided by ``beta_eval``. :meth:`both` makes one for each direction.

    Args:
        source, target: the images.
        scores: score maps of the two.
        mirrored: of their mirror images, for the flipped ensemble.
        beta_eval: evaluation temperature.
    """

    def __init__(
        self,
        source: EncodedImage,
        target: EncodedImage,
        scores: ScoreMaps,
        mirrored: ScoreMaps | None = None,
        beta_eval: float = 1.0,
    ) -> None:
        self.source, self.target, self.beta_eval = source, target, beta_eval
        self.scores, self.mirrored = scores, mirrored
        self.temperature = pair_temperature(source, target) * beta_eval

    @classmethod
    def both(
        cls, model: SimSC, first: EncodedImage, second: EncodedImage, beta_eval: float = 1.0, flip: bool = False
    ) -> tuple[PairScorer, PairScorer]:
        """From the first image to the second, and back; what serves both directions is done once."""
        there, back = model.head.scorers(first.features, second.features)
        mirrored: tuple[ScoreMaps | None, ScoreMaps | None] = None, None
        if flip:
            if first.flipped is None or second.flipped is None:
                raise ConfigError("one image was encoded with flip, the other without; encode both by the same matcher")
            mirrored = model.head.scorers(first.flipped, second.flipped)
        return cls(first, second, there, mirrored[0], beta_eval), cls(second, first, back, mirrored[1], beta_eval)

    def __call__(self, cells: Tensor) -> Tensor:
        """Points ``(1, N, 2)`` in cells of the source -> scores ``(1, N, h, w)``."""
        return self._look(cells)[0]

    def match(self, cells: Tensor, localizer: str) -> DenseMatch:
        """Where points ``(h, w, 2)`` or ``(1, h, w, 2)`` in cells of the source lie in the target."""
        return dense_match(self.source.features, self.target.features, cells, score_maps=self, localizer=localizer)

    def locate(self, cells: Tensor, localizer: str) -> Located:
        """Where points ``(n, 2)`` in cells of the source lie in the target, and what their score maps say of that."""
        size = chunk_size(self.source.features, self.target.features)
        parts = [self._locate(chunk, localizer) for chunk in cells.split(size)]
        return Located(*map(torch.cat, zip(*parts, strict=True)))

    def signals(self, cells: Tensor, found: Tensor) -> Tensor:
        """Signals ``(n, 4)``, 11 with coherence, of matches of points ``(n, 2)``, both in cells of their images."""
        size = chunk_size(self.source.features, self.target.features)
        chunks = zip(cells.split(size), found.split(size), strict=True)
        return torch.cat([self._signals(*self._look(asked[None]), asked, answer) for asked, answer in chunks])

    def _look(self, cells: Tensor) -> tuple[Tensor, Expected | None]:
        """Scores ``(1, N, h, w)`` of points ``(1, N, 2)`` and, with coherence, where these should lie."""
        expected = None
        if isinstance(self.scores, Coherent):
            scores, batch = self.scores.heed(cells)
            expected = Expected(*(part[0] for part in batch))
        else:
            scores = self.scores(cells)
        if self.mirrored is not None:
            mirrored = self.mirrored(flip_points(cells, self.source.features.map_size[1])).flip(-1)
            scores = (scores + mirrored) / 2
        return scores if self.beta_eval == 1 else scores / self.beta_eval, expected

    def _locate(self, cells: Tensor, localizer: str) -> Located:
        scores, expected = self._look(cells[None])
        found = localize(scores, localizer)[0]
        return Located(found, peak_probability(scores)[0], self._signals(scores, expected, cells, found))

    def _signals(self, scores: Tensor, expected: Expected | None, cells: Tensor, found: Tensor) -> Tensor:
        own = map_signals(scores, found[None], self.temperature, further=expected is not None)[0]
        if expected is None:
            return own
        features = self.source.features
        alike = query_scores(features.maps, features.maps, cells[None])[0].flatten(1)
        distinct = distinctness(alike, shares_of(cells, features.map_size), features.map_size)
        return torch.cat([own, coherence_signals(distinct, expected)], dim=1)


def pair_temperature(source: EncodedImage, target: EncodedImage) -> float:
    """Effective temperature of a pair: the product of both images' temperatures."""
    return float(source.features.temperature * target.features.temperature)


@dataclass(frozen=True)
class View:
    """How images enter the network.

    Attributes:
        side: side of the square or, with ``keep_aspect``, length of the longer side; rounded to the stride.
        stride: image pixels per cell; sides are multiples of it, so that cells tile the image exactly.
        keep_aspect: keep the image's aspect ratio instead of resizing to a square.
        convention: of the model, see :mod:`simsc.coordinates`.

    >>> View(256, 16).frame((600, 400)).canvas, View(256, 16, keep_aspect=True).frame((600, 400)).canvas
    ((256, 256), (256, 176))
    """

    side: int
    stride: int
    keep_aspect: bool = False
    convention: Convention = "center"

    def __post_init__(self) -> None:
        largest = int(MAX_CELLS**0.5) * self.stride
        if not self.stride <= self.side <= largest:
            raise ConfigError(f"size = {self.side} is not allowed: {self.stride} (one cell) to {largest} pixels")

    def frame(self, original: Size) -> Frame:
        """The network's view of an image of that size."""
        if self.keep_aspect:
            return aspect_frame(original, self.side, self.stride, self.convention)
        return square_frame(original, round(self.side / self.stride) * self.stride, self.convention)


def encode_images(
    encoder: Encoder, images: Sequence[np.ndarray], view: View, device: torch.device, *, flip: bool = False
) -> list[EncodedImage]:
    """Encode ``(H, W, 3)`` uint8 images; those of equal input size, and their mirror images, in one batch."""
    frames = [view.frame((image.shape[0], image.shape[1])) for image in images]
    encoded: dict[int, EncodedImage] = {}
    for canvas in dict.fromkeys(frame.canvas for frame in frames):
        members = [index for index, frame in enumerate(frames) if frame.canvas == canvas]
        inputs = torch.stack([frames[index].to_input(images[index]) for index in members]).to(device)
        features = encoder(torch.cat([inputs, inputs.flip(-1)]) if flip else inputs)
        for place, index in enumerate(members):
            mirrored = _one(features, len(members) + place) if flip else None
            encoded[index] = EncodedImage(_one(features, place), frames[index], mirrored)
    return [encoded[index] for index in range(len(images))]


def _one(features: Features, index: int) -> Features:
    return features.select(slice(index, index + 1))
