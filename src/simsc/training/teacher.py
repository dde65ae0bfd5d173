"""A teacher: a trained model whose matches are lessons about points that nobody marked; beyond the paper.

Key-points say nothing about the rest of an object, and a network that learns from them alone is drawn to them. A
trained model that heeds coherence, or simply a better one, knows more: its matches of points all over an object, where
the way back leads to where they began, are taught beside the annotated ones. It sees images as they are on disk, each
once as long as memory lasts; its matches then follow the points of the copies that a learner sees.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from simsc.allocator import free_memory
from simsc.coordinates import resize_points
from simsc.data.records import Annotated, ImageRef
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.protocol import find_protocol
from simsc.matching.features import Features
from simsc.matching.localize import localize
from simsc.models.trained import Trained

GROUPS = 0.5
"""Part of the groups of images that lessons are given on: only their images cost the teacher a forward pass."""
WITHIN = 0.4
"""Part of such a group's pairs that lessons are given on."""
SHARE = GROUPS * WITHIN
"""Part of all pairs that lessons are given on."""
POINTS = 64
"""Points of a lesson before those are left out whose way back leads elsewhere."""
MARGIN = 0.3
"""How far around an object's key-points points are asked for, as a share of their larger extent."""
CLOSED = 0.04
"""Largest distance, there and back, of a match that is taught, as a share of the input's larger side."""
MEMORY = 0.5
"""Part of what memory is free at first that features may take, of all processes together: what is not kept is a forward
pass again."""


class Teacher:
    """Matches points of annotated objects.

    Args:
        trained: the model to learn from, used as its card says, at its own input size.
        device: where it runs.
        precision: what it computes in, one of :data:`simsc.devices.PRECISIONS`.
    """

    def __init__(self, trained: Trained, device: torch.device, precision: str = "float32") -> None:
        self.trained = trained.ready(device, precision)
        self.encoder = ImageEncoder(trained.network, find_protocol("paper-256"), side=trained.image_size)
        self._known: OrderedDict[str, Features] = OrderedDict()
        self._bytes, self._limit = 0, int(MEMORY * free_memory()) // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        self._lock = threading.Lock()  # several threads prepare batches for an accelerator

    @torch.no_grad()
    def lesson(
        self, source: Annotated, target: Annotated, chance: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Points ``(n, 2)`` of a source and their matches in a target, in pixels of both images.

        There are none where the source has a single key-point, which says nothing of the object's extent.
        """
        if source.present.sum() < 2:
            return np.zeros((0, 2)), np.zeros((0, 2))
        asked = spread_points(source.points[source.present], source.image.size, chance)
        frame = self.encoder.frame(source.image)
        points = torch.from_numpy(frame.to_network(asked)).to(self.encoder.device, torch.float32)[None]
        here, there = self._features(source.image), self._features(target.image)
        found = self._matched(here, there, points)
        apart = (self._matched(there, here, found) - points).norm(dim=-1)[0]
        taught = (apart <= CLOSED * max(here.image_size)).cpu().numpy()
        back = self.encoder.frame(target.image).to_original(found[0].cpu().numpy().astype(np.float64))
        return asked[taught], np.asarray(back)[taught]

    def _matched(self, source: Features, target: Features, points: Tensor) -> Tensor:
        """Matches ``(1, N, 2)`` of points, both in pixels of the teacher's input."""
        scores = self.encoder.model.score_maps(source, target, points)
        cells = localize(scores, self.trained.localizer, self.trained.beta_eval)
        return resize_points(cells, target.map_size, target.image_size, self.encoder.model.convention)

    def _features(self, ref: ImageRef) -> Features:
        """Features of an image, kept in the processor's memory in half precision; the oldest are forgotten."""
        with self._lock:
            if ref.key not in self._known:
                found = self.encoder.encode([ref]).detach()
                self._known[ref.key] = replace(found, maps=found.maps.half().cpu(), layers=())
                self._bytes += self._known[ref.key].maps.nbytes
            self._known.move_to_end(ref.key)
            while self._bytes > self._limit and len(self._known) > 1:
                self._bytes -= self._known.popitem(last=False)[1].maps.nbytes
            kept = self._known[ref.key]
        return replace(kept, maps=kept.maps.to(self.encoder.device, torch.float32))


def spread_points(points: np.ndarray, size: tuple[int, int], chance: np.random.Generator) -> np.ndarray:
    """Points ``(POINTS, 2)`` drawn from the rectangle around key-points ``(n, 2)`` and a margin, within an image.

    >>> found = spread_points(np.array([[10.0, 20.0], [30.0, 20.0]]), (99, 99), np.random.default_rng(0))
    >>> found.min(axis=0).round(), found.max(axis=0).round()
    (array([ 4., 14.]), array([36., 26.]))
    """
    low, high = points.min(axis=0), points.max(axis=0)
    margin = MARGIN * (high - low).max()
    low, high = np.maximum(low - margin, 0), np.minimum(high + margin, [size[1] - 1, size[0] - 1])
    return np.asarray(low + chance.random((POINTS, 2)) * (high - low))
