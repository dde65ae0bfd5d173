"""Evaluation: each image is encoded once, each target answers all its queries in one product.

Pairs share images (SPair-71k test: 12,234 pairs, 481 images), so features are computed per image and pairs are
streamed over them block by block; memory is bounded by the number of images kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.coordinates import Convention, Size, flip_points, resize_points
from simsc.data.records import ImageRef, Pair
from simsc.errors import ConfigError
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.predictions import Prediction
from simsc.matching.coherence import Polls
from simsc.matching.features import Features, sample_map
from simsc.matching.localize import localize, peak_probability
from simsc.matching.mirror import Mirror, check_mirror, suits_better
from simsc.models.heads.base import Asked

Progress = Callable[[int, int], None]
Seen = Mapping[int, tuple[ImageRef, np.ndarray]]
"""By pair: the source as it is matched, itself or its mirror image, and the points there."""
MAX_BYTES = 1 << 30
"""Memory for the features that are kept at a time."""
PAIRS_AT_ONCE = 1024
"""Pairs whose query features are held together."""
UPSAMPLED_BYTES = 64 << 20
"""Memory for the up-sampled features that are looked at together."""
_FLIPPED = "|flip"


class Evaluator:
    """Predicts the target points of pairs.

    Args:
        encoder: model, protocol and cache.
        localizer: name of a localiser.
        beta_eval: temperature for models that have not learned one.
        temperature: a fixed effective temperature instead of the features' own.
        flip: flipped ensemble: match the mirrored pair too and average the score maps.
        mirror: match the mirror image of the source: ``no``, ``yes``, or ``auto`` where it suits the target better.
        max_images: how many images' features are kept at a time; by default what fits into ``max_bytes``.
    """

    def __init__(
        self,
        encoder: ImageEncoder,
        localizer: str = "kernel-soft-argmax",
        beta_eval: float = 1.0,
        temperature: float | None = None,
        flip: bool = False,
        max_images: int | None = None,
        mirror: Mirror = "no",
    ) -> None:
        check_mirror(mirror)
        if encoder.protocol.upsample and not encoder.model.head.compares_features:
            raise ConfigError(f"protocol '{encoder.protocol.name}' compares features and would bypass the head")
        self.encoder, self.localizer, self.beta_eval, self.max_images = encoder, localizer, beta_eval, max_images
        self.temperature, self.flip, self.mirror = temperature, flip, mirror
        self.max_bytes = MAX_BYTES
        if flip and encoder.protocol.upsample:
            raise ConfigError(f"protocol '{encoder.protocol.name}' compares features and has no flipped ensemble")

    @torch.inference_mode()
    def predict(self, pairs: Sequence[Pair], progress: Progress | None = None) -> list[Prediction]:
        """Predictions for all pairs, in their order."""
        if self.encoder.protocol.swap:
            pairs = [pair.swapped() for pair in pairs]
        results: dict[int, Prediction] = {}
        for images, members in plan_blocks(pairs, self.max_images or self._images_that_fit(pairs)):
            if self._mirrors:
                images = [*images, *(mirrored(ref) for ref in images)]
            features = {ref.key: item.at_temperature(self.temperature) for ref, item in self.encoder.stream(images)}
            for index, prediction in self._predict_block(pairs, members, features):
                results[index] = prediction
                if progress:
                    progress(len(results), len(pairs))
        return [results[index] for index in range(len(pairs))]

    def _predict_block(
        self, pairs: Sequence[Pair], members: Sequence[int], features: dict[str, Features]
    ) -> Iterator[tuple[int, Prediction]]:
        for start in range(0, len(members), PAIRS_AT_ONCE):
            chosen = members[start : start + PAIRS_AT_ONCE]
            seen = {index: self._seen(pairs[index], features) for index in chosen}
            asked = self._with_votes(self._read(seen, features), seen, pairs, features)
            mirrors = (
                self._read({index: _in_mirror(*each) for index, each in seen.items()}, features) if self.flip else {}
            )
            for key, indices in _grouped(chosen, lambda index: pairs[index].target.key).items():
                ref, queries = pairs[indices[0]].target, [asked[index] for index in indices]
                scores = self.encoder.model.head.score(queries, features[key])
                if mirrors:
                    flipped = features[mirrored(ref).key]
                    again = self.encoder.model.head.score([mirrors[index] for index in indices], flipped)
                    scores = (scores + again.flip(-1)) / 2
                found, confidence = self._locate(scores, queries, features[key], ref)
                yield from self._predictions(pairs, indices, seen, found, confidence, features)

    @property
    def _mirrors(self) -> bool:
        """Whether mirror images are needed."""
        return self.flip or self.mirror != "no"

    def _seen(self, pair: Pair, features: dict[str, Features]) -> tuple[ImageRef, np.ndarray]:
        """The source of a pair as it is matched, and the points there."""
        here = pair.source, pair.source_points
        if self.mirror == "no":
            return here
        there = _in_mirror(*here)
        maps = (features[ref.key].maps[0] for ref in (here[0], there[0], pair.target))
        return there if self.mirror == "yes" or suits_better(*maps) else here

    def _read(self, points: Seen, features: dict[str, Features]) -> dict[int, Asked]:
        """The queries of each pair, given its source and the points there; a source is read once for all its pairs."""
        asked: dict[int, Asked] = {}
        for key, indices in _grouped(points, lambda index: points[index][0].key).items():
            read = self.encoder.model.read(features[key], [self._network_points(*points[index]) for index in indices])
            asked.update(zip(indices, read, strict=True))
        return asked

    def _with_votes(
        self, asked: dict[int, Asked], seen: Seen, pairs: Sequence[Pair], features: dict[str, Features]
    ) -> dict[int, Asked]:
        """The queries with their sources' votes, if the model heeds them; a pair and its reverse are compared once."""
        if not self.encoder.model.head.coherent:
            return asked
        ways = {index: (seen[index][0].key, pairs[index].target.key) for index in asked}
        known = []
        for way in ways.values():
            source, target = features[way[0]], features[way[1]]
            known.append((way, source.coarse[0], target.coarse[0], float(source.temperature * target.temperature)))
        votes = Polls(ways.values()).votes(known)
        return {index: replace(each, votes=cast) for (index, each), cast in zip(asked.items(), votes, strict=True)}

    def _locate(
        self, scores: Tensor, asked: Sequence[Asked], target: Features, ref: ImageRef
    ) -> tuple[np.ndarray, np.ndarray]:
        """Matches ``(Q, 2)`` in original pixels and confidences ``(Q,)`` from score maps over one target."""
        model, frame = self.encoder.model, self.encoder.frame(ref)
        confidence = peak_probability(scores, self.beta_eval)[0].cpu().numpy().astype(np.float64)
        if self.encoder.protocol.upsample:
            joined = torch.cat([each.features for each in asked if each.features is not None])
            return upsampled_argmax(joined, target.maps[0], frame.original, model.convention), confidence
        cells = localize(scores, self.localizer, self.beta_eval)[0].cpu().double()
        network = resize_points(cells, target.map_size, target.image_size, model.convention)
        return frame.to_original(network).cpu().numpy(), confidence

    def _predictions(
        self,
        pairs: Sequence[Pair],
        indices: Sequence[int],
        seen: Seen,
        found: np.ndarray,
        confidence: np.ndarray,
        features: dict[str, Features],
    ) -> Iterator[tuple[int, Prediction]]:
        start = 0
        for index in indices:
            pair = pairs[index]
            part = slice(start, start + len(pair.source_points))
            start = part.stop
            source = seen[index][0]
            betas = (features[ref.key].temperature for ref in (source, pair.target))
            temperature = math.prod(float(beta) for beta in betas)
            mirrored = source.flip != pair.source.flip
            yield index, Prediction.of(pair, found[part], confidence[part], temperature, mirrored)

    def _images_that_fit(self, pairs: Sequence[Pair]) -> int:
        backbone, head = self.encoder.model.backbone, self.encoder.model.head
        frames = {self.encoder.frame(ref) for pair in pairs for ref in (pair.source, pair.target)}
        cells = max((math.prod(backbone.grid_size(frame.canvas)) for frame in frames), default=1)
        # A layer that a head asks for is at most four times as large: early layers have large maps.
        # A coarse grid is not larger than the map.
        layers = (1 + 4 * len(head.layers) + head.coherent) * (2 if self._mirrors else 1)
        return self.max_bytes // (4 * backbone.channels * cells * layers)

    def _network_points(self, ref: ImageRef, points: np.ndarray) -> Tensor:
        return torch.from_numpy(self.encoder.frame(ref).to_network(points)).float().to(self.encoder.device)


def mirrored(ref: ImageRef) -> ImageRef:
    """The same image in a mirror; seen in a second one, it is itself again."""
    key = ref.key.removesuffix(_FLIPPED) if ref.key.endswith(_FLIPPED) else ref.key + _FLIPPED
    return replace(ref, key=key, flip=not ref.flip)


def _in_mirror(source: ImageRef, points: np.ndarray) -> tuple[ImageRef, np.ndarray]:
    """An image in a mirror, and its points there."""
    return mirrored(source), flip_points(points, source.size[1])


def plan_blocks(pairs: Sequence[Pair], max_images: int) -> Iterator[tuple[list[ImageRef], list[int]]]:
    """Blocks of pairs with the images they need, at most ``max_images`` (at least 2) in a block.

    Pairs are sorted by category and target, so that pairs of a block share as many images as possible.
    """
    order = sorted(range(len(pairs)), key=lambda i: (pairs[i].category, pairs[i].target.key, pairs[i].source.key))
    images: dict[str, ImageRef] = {}
    members: list[int] = []
    for index in order:
        needed = {ref.key: ref for ref in (pairs[index].source, pairs[index].target)}
        if members and len(images.keys() | needed.keys()) > max(max_images, 2):
            yield list(images.values()), members
            images, members = {}, []
        images.update(needed)
        members.append(index)
    if members:
        yield list(images.values()), members


def upsampled_argmax(queries: Tensor, target: Tensor, size: Size, convention: Convention = "center") -> np.ndarray:
    """Pixel ``(Q, 2)`` xy of an image of ``size`` whose interpolated, normalised feature suits each query best.

    Args:
        queries: ``(Q, C)`` query features.
        target: ``(C, h, w)`` un-normalised target features.
        size: ``(H, W)`` to which they are up-sampled, row block by row block.
        convention: see :mod:`simsc.coordinates`.
    """
    best = queries.new_full((len(queries),), float("-inf"))
    place = torch.zeros(len(queries), dtype=torch.long, device=queries.device)
    rows = max(1, UPSAMPLED_BYTES // (4 * target.shape[0] * size[1]))
    for top in range(0, size[0], rows):
        block = _interpolated(target, size, top, min(rows, size[0] - top), convention)
        score, index = (queries @ F.normalize(block, dim=-1).T).max(dim=1)
        better = score > best
        best = torch.where(better, score, best)
        place = torch.where(better, index + top * size[1], place)
    return torch.stack([place % size[1], place // size[1]], dim=1).cpu().numpy().astype(np.float64)


def _interpolated(target: Tensor, size: Size, top: int, rows: int, convention: Convention) -> Tensor:
    """Features ``(rows * W, C)`` at the pixels of some rows of the image."""
    y = torch.arange(top, top + rows, device=target.device, dtype=target.dtype)
    x = torch.arange(size[1], device=target.device, dtype=target.dtype)
    pixels = torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], dim=-1).reshape(1, -1, 2)
    cells = resize_points(pixels, size, (target.shape[-2], target.shape[-1]), convention)
    return sample_map(target[None], cells)[0]


def _grouped(indices: Iterable[int], key: Callable[[int], str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index in indices:
        groups.setdefault(key(index), []).append(index)
    return groups


def first(pairs: Sequence[Pair], limit: int | None) -> list[Pair]:
    """The first ``limit`` pairs, or all."""
    return list(islice(pairs, limit))
