"""One direction of a dense correspondence: a grid over one image, and where its places lie in the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import Convention, Size, cell_grid, resize_points
from simsc.matcher.encoded import EncodedImage
from simsc.matcher.pairing import PairScorer, from_cells
from simsc.matcher.results import upsample
from simsc.matching.dense import dense_match
from simsc.matching.features import sample_map

CYCLE_SHARE = 0.1
"""Default limit of the cycle error, as a share of the larger side: the distance that PCK@0.1 still accepts."""


@dataclass(frozen=True)
class HalfFlow:
    """One direction: a grid over image A, and where its places lie in image B.

    Positions are kept as shifts from the same relative place in B, so that between and beyond the grid's centres
    they go on as a translation.

    Attributes:
        shift: ``(h, w, 2)`` pixels of B.
        confidence: ``(h, w)``.
        cycle_error: ``(h, w)`` pixels of A.
        size: ``(height, width)`` of A as shown.
        other: ``(height, width)`` of B as shown.
        convention: see :mod:`simsc.coordinates`.
    """

    shift: np.ndarray
    confidence: np.ndarray
    cycle_error: np.ndarray
    size: Size
    other: Size
    convention: Convention = "center"

    def dense(self) -> np.ndarray:
        """Positions in B of all pixels of A: ``(height, width, 2)`` float32 xy, inside of B."""
        rows, columns = np.mgrid[: self.size[0], : self.size[1]]
        pixels = np.stack([columns, rows], axis=-1).astype(np.float32)
        return self._inside(self._start(pixels) + upsample(self.shift, self.size, self.convention))

    def at(self, points: np.ndarray) -> np.ndarray:
        """Positions in B of points ``(n, 2)`` of A."""
        grid = self.shift.shape[0], self.shift.shape[1]
        cells = torch.from_numpy(resize_points(points, self.size, grid, self.convention))
        maps = torch.from_numpy(self.shift).permute(2, 0, 1)[None]
        return self._inside(self._start(points) + sample_map(maps, cells[None])[0].numpy())

    def smoothed(self, sigma: float) -> HalfFlow:
        """Shifts averaged with a Gaussian of ``sigma`` grid steps, weighted by how far each can be trusted."""
        trust = self.confidence * np.exp(-((self.cycle_error / (CYCLE_SHARE * max(self.size))) ** 2)) + 1e-6
        weight = _blur(trust[..., None], sigma)
        return replace(self, shift=_blur(self.shift * trust[..., None], sigma) / weight)

    def _start(self, points: np.ndarray) -> np.ndarray:
        return resize_points(points, self.size, self.other, self.convention)

    def _inside(self, points: np.ndarray) -> np.ndarray:
        limit = np.asarray((self.other[1] - 1, self.other[0] - 1), dtype=points.dtype)
        return points.clip(0, limit)


def match_half(there: PairScorer, back: PairScorer, localizer: str, density: int) -> HalfFlow:
    """Match a grid over the first image with the second one, and back."""
    first, second = there.source, there.target
    queries = _queries(first, density)
    match = dense_match(first.features, second.features, queries, score_maps=there, localizer=localizer)
    returned = dense_match(second.features, first.features, match.points, score_maps=back, localizer=localizer)
    places = from_cells(first, queries)
    start = resize_points(places, first.size, second.size, first.frame.convention)
    return HalfFlow(
        shift=(from_cells(second, match.points[0]) - start),
        confidence=match.confidence[0].cpu().numpy(),
        cycle_error=np.linalg.norm(from_cells(first, returned.points[0]) - places, axis=-1),
        size=first.size,
        other=second.size,
        convention=first.frame.convention,
    )


def _queries(image: EncodedImage, density: int) -> Tensor:
    """``(h * density, w * density, 2)`` in cells: a regular grid over the image."""
    height, width = image.features.map_size
    fine = height * density, width * density
    grid = cell_grid(fine, device=image.features.maps.device)
    return resize_points(grid, fine, (height, width), image.frame.convention).unflatten(0, fine)


def _blur(values: np.ndarray, sigma: float) -> np.ndarray:
    """Gaussian blur of ``(h, w, c)``; weights beyond the border are missing, not zero values."""
    for axis in (0, 1):
        steps = np.arange(values.shape[axis])
        kernel = np.exp(-((steps[:, None] - steps) ** 2) / (2 * sigma**2))
        values = np.moveaxis(np.tensordot(kernel, values, axes=(1, axis)), 0, axis)
    return values
