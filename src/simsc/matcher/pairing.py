"""Matches between two encoded images, in pixels of the images as shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import Size, flip_points, resize_points
from simsc.errors import ConfigError, DataError
from simsc.matcher.encoded import EncodedImage
from simsc.matching.dense import dense_match
from simsc.models.model import SimSC


class PairScorer:
    """Score maps over the target as a function of points in cells of the source.

    Where both images come with their mirror images, the mirrored pair is matched too and its score maps, mirrored
    back, are averaged with the others. Scores are divided by ``beta_eval``.
    """

    def __init__(self, model: SimSC, source: EncodedImage, target: EncodedImage, beta_eval: float = 1.0) -> None:
        self.source, self.target, self.beta_eval = source, target, beta_eval
        self.temperature = float(source.features.temperature * target.features.temperature) * beta_eval
        self.scores = model.scorer(source.features, target.features)
        self.mirrored = None
        if (source.flipped is None) != (target.flipped is None):
            raise ConfigError("one image was encoded with flip, the other without; encode both by the same matcher")
        if source.flipped is not None and target.flipped is not None:
            self.mirrored = model.scorer(source.flipped, target.flipped)

    def __call__(self, cells: Tensor) -> Tensor:
        """Points ``(1, N, 2)`` in cells of the source -> scores ``(1, N, h, w)``."""
        scores = self.scores(cells)
        if self.mirrored is not None:
            mirrored = self.mirrored(flip_points(cells, self.source.features.map_size[1])).flip(-1)
            scores = (scores + mirrored) / 2
        return scores if self.beta_eval == 1 else scores / self.beta_eval


@dataclass(frozen=True)
class Found:
    """Matches of points.

    Attributes:
        points: ``(n, 2)`` float64 xy in pixels of the target as shown.
        confidence: ``(n,)`` peak probability.
    """

    points: np.ndarray
    confidence: np.ndarray


def find_points(scorer: PairScorer, points: np.ndarray, localizer: str) -> Found:
    """Matches of points ``(n, 2)`` in pixels of the source as shown."""
    source, target = scorer.source, scorer.target
    cells = to_cells(source, points)
    match = dense_match(source.features, target.features, cells[:, None], score_maps=scorer, localizer=localizer)
    found = from_cells(target, match.points[0, :, 0])
    return Found(found, match.confidence[0, :, 0].cpu().numpy())


def to_cells(image: EncodedImage, points: np.ndarray) -> Tensor:
    """Pixels ``(n, 2)`` of the image as shown -> cells of its feature map."""
    features, frame = image.features, image.frame
    cells = resize_points(frame.to_network(points), frame.canvas, features.map_size, frame.convention)
    return torch.from_numpy(cells).to(features.maps.device, torch.float32)


def from_cells(image: EncodedImage, cells: Tensor) -> np.ndarray:
    """Cells ``(..., 2)`` of the feature map -> pixels of the image as shown."""
    frame = image.frame
    exact = cells.cpu().numpy().astype(np.float64)
    return frame.to_original(resize_points(exact, image.features.map_size, frame.canvas, frame.convention))


def check_query(points: object, size: Size) -> np.ndarray:
    """Query points as ``(n, 2)`` float64; refuses other shapes and points outside of the image ``(H, W)``.

    >>> check_query([(3, 4)], (10, 10))
    array([[3., 4.]])
    """
    try:
        array = np.asarray(points.cpu() if isinstance(points, Tensor) else points, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("points: expected pairs of numbers (x, y)") from None
    if array.size == 0:
        return np.zeros((0, 2))
    if array.ndim != 2 or array.shape[1] != 2:
        raise DataError(f"points: expected shape (n, 2), one (x, y) each, got {array.shape}")
    height, width = size
    inside = (array >= -0.5).all(axis=1) & (array <= (width - 0.5, height - 0.5)).all(axis=1)
    if not inside.all():
        index = int(np.flatnonzero(~inside)[0])
        x, y = array[index]
        raise DataError(
            f"point {index + 1} at ({x:g}, {y:g}) lies outside of the source image of {width}x{height} pixels"
        )
    return array
