"""Dense correspondence between two images: every pixel of the target, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import Convention, Size, cell_grid, resize_points
from simsc.errors import DataError
from simsc.images import check_pixels
from simsc.matcher.encoded import EncodedImage, PairScorer
from simsc.matcher.results import upsample
from simsc.matching.features import sample_map

OUTSIDE = 128  # grey, where a warped pixel has no counterpart
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


@dataclass(frozen=True)
class DenseFlow:
    """For every pixel of the target where it comes from in the source, and the way back.

    Attributes:
        backward: from the target to the source; what warping needs.
        match_forward: computes :attr:`forward`.
        temperature: effective temperature of the pair.
        max_cycle: limit of the cycle error in pixels of the target, for :attr:`cycle_mask`.
        mirrored: whether the mirror image of the source was matched; positions are those of the source as shown.
    """

    backward: HalfFlow
    match_forward: Callable[[], HalfFlow] = field(repr=False, compare=False)
    temperature: float
    max_cycle: float
    mirrored: bool = False

    @property
    def source_size(self) -> Size:
        """``(height, width)`` of the source as shown."""
        return self.backward.other

    @property
    def target_size(self) -> Size:
        """``(height, width)`` of the target as shown."""
        return self.backward.size

    @cached_property
    def forward(self) -> HalfFlow:
        """From the source to the target; what moves points. Matched on first use."""
        return self.match_forward()

    @cached_property
    def points(self) -> np.ndarray:
        """``(H_t, W_t, 2)`` xy in pixels of the source for every pixel of the target."""
        return self.backward.dense()

    @cached_property
    def confidence(self) -> np.ndarray:
        """``(H_t, W_t)`` in [0, 1]: peak probability of the match of every pixel of the target."""
        return upsample(self.backward.confidence, self.target_size, self.backward.convention)

    @cached_property
    def cycle_error(self) -> np.ndarray:
        """``(H_t, W_t)`` pixels of the target between a pixel and where its match leads back to."""
        return upsample(self.backward.cycle_error, self.target_size, self.backward.convention)

    @cached_property
    def cycle_mask(self) -> np.ndarray:
        """``(H_t, W_t)`` bool: whether the match of a pixel leads back to within ``max_cycle``."""
        return self.cycle_error <= self.max_cycle

    def warp(self, image: np.ndarray, *, consistent: bool = False) -> np.ndarray:
        """The source's pixels ``(H_s, W_s, 3)`` uint8 as they lie on the target: ``(H_t, W_t, 3)`` uint8.

        With ``consistent``, pixels outside of :attr:`cycle_mask` are grey.
        """
        check_pixels(image)
        _check_size(image, self.source_size, "image")
        warped = np.rint(_sample(image, self.points)).astype(np.uint8)
        if consistent:
            warped[~self.cycle_mask] = OUTSIDE
        result: np.ndarray = warped
        return result

    def transfer_mask(self, mask: np.ndarray, *, consistent: bool = False) -> np.ndarray:
        """A mask ``(H_s, W_s)`` of the source on the target: ``(H_t, W_t)`` bool.

        With ``consistent``, only pixels of :attr:`cycle_mask` can be set.
        """
        mask = np.asarray(mask)
        _check_size(mask, self.source_size, "mask")
        moved = _sample((mask > 0).astype(np.float32)[..., None], self.points)[..., 0] > 0.5
        return moved & self.cycle_mask if consistent else moved

    def transfer_points(self, points: np.ndarray) -> np.ndarray:
        """Points ``(n, 2)`` of the source on the target, interpolated between the cells' matches."""
        return self.forward.at(np.asarray(points, dtype=np.float64).reshape(-1, 2))


def dense_flow(
    there: PairScorer,
    back: PairScorer,
    *,
    localizer: str,
    density: int = 1,
    smooth: float = 0.0,
    max_cycle: float | None = None,
) -> DenseFlow:
    """Match two images densely, given their scorers in both directions; see :meth:`simsc.matcher.Matcher.dense`."""
    limit = CYCLE_SHARE * max(there.target.size) if max_cycle is None else max_cycle
    backward = match_half(back, there, localizer, density, smooth)
    forward = partial(match_half, there, back, localizer, density, smooth)
    return DenseFlow(backward, forward, there.temperature, limit, there.source.mirrored)


@torch.inference_mode()
def match_half(there: PairScorer, back: PairScorer, localizer: str, density: int, smooth: float) -> HalfFlow:
    """Match a grid over the first image with the second one, and back."""
    first, second = there.source, there.target
    queries = _queries(first, density)
    match = there.match(queries, localizer)
    returned = back.match(match.points, localizer)
    places = first.from_cells(queries)
    start = resize_points(places, first.size, second.size, first.frame.convention)
    # The columns of a mirrored map run from right to left over the image as shown.
    order = slice(None, None, -1 if first.mirrored else 1)
    half = HalfFlow(
        shift=np.ascontiguousarray((second.from_cells(match.points[0]) - start)[:, order]),
        confidence=np.ascontiguousarray(match.confidence[0].cpu().numpy()[:, order]),
        cycle_error=np.linalg.norm(first.from_cells(returned.points[0]) - places, axis=-1)[:, order],
        size=first.size,
        other=second.size,
        convention=first.frame.convention,
    )
    return half.smoothed(smooth * density) if smooth else half


def _queries(image: EncodedImage, density: int) -> Tensor:
    """``(h * density, w * density, 2)`` in cells: a regular grid over the image."""
    height, width = image.features.map_size
    fine = height * density, width * density
    grid = cell_grid(fine, device=image.features.maps.device)
    result: Tensor = resize_points(grid, fine, (height, width), image.frame.convention).unflatten(0, fine)
    return result


def _blur(values: np.ndarray, sigma: float) -> np.ndarray:
    """Gaussian blur of ``(h, w, c)``; weights beyond the border are missing, not zero values."""
    for axis in (0, 1):
        steps = np.arange(values.shape[axis])
        kernel = np.exp(-((steps[:, None] - steps) ** 2) / (2 * sigma**2))
        values = np.moveaxis(np.tensordot(kernel, values, axes=(1, axis)), 0, axis)
    return values


def _sample(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Bilinear look-up of ``(H, W, c)`` at places ``(h, w, 2)`` xy inside, row block by row block."""
    maps = torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1), dtype=np.float32))[None]
    rows = max(1, 2**20 // places.shape[1])
    blocks = [
        sample_map(maps, torch.from_numpy(places[top : top + rows]).reshape(1, -1, 2))[0].numpy()
        for top in range(0, len(places), rows)
    ]
    return np.concatenate(blocks).reshape(*places.shape[:2], values.shape[2])


def _check_size(array: np.ndarray, size: Size, what: str) -> None:
    if array.shape[:2] != size or (what == "mask" and array.ndim != 2):
        raise DataError(f"{what}: expected the source's size, (height, width) = {size}, got shape {array.shape}")
