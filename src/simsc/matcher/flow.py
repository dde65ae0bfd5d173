"""Dense correspondence between two images: every pixel of the target, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.images import check_pixels
from simsc.matcher.half_flow import CYCLE_SHARE, HalfFlow, match_half
from simsc.matcher.pairing import PairScorer
from simsc.matcher.results import upsample
from simsc.matching.features import sample_map

OUTSIDE = 128  # grey, where a warped pixel has no counterpart


@dataclass(frozen=True)
class DenseFlow:
    """For every pixel of the target where it comes from in the source, and the way back.

    Attributes:
        backward: from the target to the source; what warping needs.
        forward: from the source to the target; what moves points.
        temperature: effective temperature of the pair.
        max_cycle: limit of the cycle error in pixels of the target, for :attr:`cycle_mask`.
    """

    backward: HalfFlow
    forward: HalfFlow
    temperature: float
    max_cycle: float

    @property
    def source_size(self) -> Size:
        """``(height, width)`` of the source as shown."""
        return self.forward.size

    @property
    def target_size(self) -> Size:
        """``(height, width)`` of the target as shown."""
        return self.backward.size

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
        return warped

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
    halves = (
        match_half(back, there, localizer, density),
        match_half(there, back, localizer, density),
    )
    backward, forward = (half.smoothed(smooth * density) if smooth else half for half in halves)
    return DenseFlow(backward, forward, there.temperature, limit)


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
