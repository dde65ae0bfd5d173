"""Many pairs of few images: what belongs to an image is computed once, all queries over a target are one product.

A source is needed only for its query features, a target only as the map they are looked up in. So a block of pairs
visits each of its images twice at most, once in each role, however the pairs connect them, and memory holds the query
features of the block and the image in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simsc.bulk.store import Encodings
from simsc.coordinates import Size, resize_points
from simsc.errors import DataError, SimscError
from simsc.frames import Frame
from simsc.matcher import EncodedImage, Matcher
from simsc.matcher.queries import check_query
from simsc.matching.features import neighbours
from simsc.matching.localize import localize, peak_probability
from simsc.matching.scores import unit_features

ROW_MULTIPLE = 16
"""Products have a multiple of so many rows: a row's digits then do not depend on how many others there are."""

MAX_ROWS = 1024
"""Queries over one target in one product; score maps of more of them leave the processor's cache."""

MAX_QUERY_BYTES = 128 << 20
"""Query features that are held at a time."""

_UNKNOWN_COUNT = 64  # of points that are only known once the image's size is


@dataclass(frozen=True)
class Ready:
    """An image in the form that products take.

    Attributes:
        rows: ``(h * w, C)`` features, normalised and divided by the temperature.
        map_size: ``(h, w)``.
        temperature: of the image.
        frame: how it entered the network.
    """

    rows: Tensor
    map_size: Size
    temperature: float
    frame: Frame

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.rows.nbytes

    def cells(self, points: np.ndarray) -> Tensor:
        """Pixels ``(n, 2)`` of the image as shown -> cells."""
        cells = resize_points(self.frame.to_network(points), self.frame.canvas, self.map_size, self.frame.convention)
        return torch.from_numpy(cells).to(self.rows.device, torch.float32)

    def pixels(self, cells: Tensor) -> np.ndarray:
        """Cells ``(n, 2)`` -> pixels of the image as shown."""
        exact = cells.cpu().numpy().astype(np.float64)
        return self.frame.to_original(resize_points(exact, self.map_size, self.frame.canvas, self.frame.convention))

    def sample(self, points: np.ndarray) -> Tensor:
        """Features ``(n, C)`` at points in pixels, bilinear."""
        cells, weights = neighbours(self.cells(points), self.map_size)
        around = self.rows.index_select(0, cells.flatten()).unflatten(0, cells.shape)
        sampled: Tensor = (around * weights[..., None]).sum(dim=1)
        return sampled


def plain(matcher: Matcher) -> bool:
    """Whether scores are products of features alone, so that :class:`Ready` is all they need of an image."""
    head = matcher.model.head
    return head.compares_features and head.query == "normalize-then-sample" and not matcher.flip


def make_ready(matcher: Matcher) -> Callable[[EncodedImage], Ready]:
    """From an encoding to the form that products take."""

    def ready(image: EncodedImage) -> Ready:
        features = image.features
        units = unit_features(features.maps, features.beta, matcher.model.normalize)
        rows = units[0].flatten(1).t().contiguous()
        return Ready(rows, features.map_size, float(features.temperature), image.frame)

    return ready


@dataclass
class Found:
    """What became of a pair: matches, or the reason why there are none.

    Attributes:
        points: ``(n, 2)`` float64 xy in pixels of the target.
        confidence: ``(n,)``.
        cycle_error: ``(n,)`` pixels of the source, or None if it was not asked for.
        status: ``(n,)`` texts, or None where the matcher gives none.
        temperature: of the pair.
    """

    points: np.ndarray
    confidence: np.ndarray
    temperature: float
    cycle_error: np.ndarray | None = None
    status: list[str] | None = None
    mirrored: bool = False


@dataclass
class Pair:
    """Two images by path, and points ``(n, 2)`` in pixels of the first.

    Where the points depend on the image's size, ``ask`` finds them once it is known.
    """

    source: str
    target: str
    points: np.ndarray | None = None
    ask: Callable[[Size], np.ndarray] | None = None

    def query(self, size: Size) -> np.ndarray:
        """The points, checked against the ``(height, width)`` of the source."""
        if self.points is None:
            if self.ask is None:
                raise DataError("no points: the row has neither points nor annotations, and no grid was asked for")
            self.points = self.ask(size)
        self.points = check_query(self.points, size)
        return self.points


@torch.inference_mode()
def match_plain(matcher: Matcher, images: Encodings[Ready], pairs: Sequence[Pair], cycle: bool) -> list[Found | str]:
    """Matches of all pairs in their order; a pair whose images cannot be used gets the reason."""
    results: list[Found | str] = [""] * len(pairs)
    order = sorted(range(len(pairs)), key=lambda index: (pairs[index].target, pairs[index].source))
    for block in _blocks(pairs, order, matcher.model.backbone.channels):
        chosen = [pairs[index] for index in block]
        answers = _match_block(matcher, images, chosen)
        if cycle:
            _add_cycle(matcher, images, chosen, answers)
        for index, answer in zip(block, answers, strict=True):
            results[index] = answer
    return results


def match_each(matcher: Matcher, images: Encodings[EncodedImage], pairs: Sequence[Pair]) -> list[Found | str]:
    """The same for models whose scores are more than products: pair by pair, sorted so that images are re-used."""
    results: list[Found | str] = [""] * len(pairs)
    for index in sorted(range(len(pairs)), key=lambda index: (pairs[index].target, pairs[index].source)):
        pair = pairs[index]
        try:
            source = images.get(pair.source)
            result = matcher.match(source, images.get(pair.target), pair.query(source.size))
        except (SimscError, OSError, MemoryError) as error:
            results[index] = str(error)
            continue
        status = getattr(result, "status", None)
        results[index] = Found(
            result.points,
            result.confidence,
            result.temperature,
            result.cycle_error,
            None if status is None else [str(each) for each in status],
            bool(getattr(result, "mirrored", False)),
        )
    return results


def _blocks(pairs: Sequence[Pair], order: Sequence[int], channels: int) -> list[list[int]]:
    """Pairs in order, cut where the query features of a block would not fit; the same points of a source count once."""
    limit = max(MAX_QUERY_BYTES // (4 * channels), 1)
    blocks: list[list[int]] = [[]]
    held: dict[tuple[str, object], int] = {}
    total = 0
    for index in order:
        pair = pairs[index]
        key = pair.source, pair.ask if pair.points is None else pair.points.tobytes()
        count = 0 if key in held else _UNKNOWN_COUNT if pair.points is None else len(pair.points)
        if total + count > limit and blocks[-1]:
            blocks.append([])
            held, total = {}, 0
        blocks[-1].append(index)
        held[key] = count
        total += count
    return blocks


def _match_block(matcher: Matcher, images: Encodings[Ready], pairs: Sequence[Pair]) -> list[Found | str]:
    answers: list[Found | str] = [""] * len(pairs)
    queries: dict[int, Tensor] = {}
    betas: dict[int, float] = {}
    for path, members in _grouped(pairs, lambda pair: pair.source).items():
        try:
            source = images.get(path)
        except (SimscError, OSError, MemoryError) as error:
            answers = [str(error) if index in members else answer for index, answer in enumerate(answers)]
            continue
        asked = []
        for index in members:
            try:
                asked.append((index, pairs[index].query(source.frame.original)))
            except SimscError as error:
                answers[index] = str(error)
        queries.update(_sample_all(source, asked))
        betas.update(dict.fromkeys(members, source.temperature))
    for path, members in _grouped(pairs, lambda pair: pair.target).items():
        members = [index for index in members if index in queries]
        try:
            target = images.get(path)
        except (SimscError, OSError, MemoryError) as error:
            for index in members:
                answers[index] = str(error)
            continue
        points, confidence = _look_up(matcher, target, [queries[index] for index in members])
        start = 0
        for index in members:
            part = slice(start, start + len(queries[index]))
            start = part.stop
            temperature = betas[index] * target.temperature * matcher.beta_eval
            answers[index] = Found(points[part], confidence[part], temperature)
    return answers


def _add_cycle(
    matcher: Matcher, images: Encodings[Ready], pairs: Sequence[Pair], answers: Sequence[Found | str]
) -> None:
    """Match the answers back, and note how far from the queries they lead."""
    there = [(pair, answer) for pair, answer in zip(pairs, answers, strict=True) if isinstance(answer, Found)]
    back = _match_block(matcher, images, [Pair(pair.target, pair.source, answer.points) for pair, answer in there])
    for (pair, answer), returned in zip(there, back, strict=True):
        if isinstance(returned, Found):
            assert pair.points is not None
            answer.cycle_error = np.linalg.norm(returned.points - pair.points, axis=1)


def _sample_all(source: Ready, asked: Sequence[tuple[int, np.ndarray]]) -> dict[int, Tensor]:
    """Query features of several sets of points of one image; points that were asked for already are not read again."""
    known: dict[bytes, Tensor] = {}
    result = {}
    for index, points in asked:
        key = points.tobytes()
        if key not in known:
            known[key] = source.sample(points)
        result[index] = known[key]
    return result


def _look_up(matcher: Matcher, target: Ready, queries: Sequence[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Points ``(Q, 2)`` in pixels and confidences ``(Q,)`` of all queries over one target."""
    if not any(map(len, queries)):
        return np.zeros((0, 2)), np.zeros(0, dtype=np.float32)
    cells, confidence = [], []
    for chunk in torch.cat(list(queries)).split(MAX_ROWS):
        scores = _scores(chunk, target) / matcher.beta_eval
        cells.append(localize(scores, matcher.localizer)[0, : len(chunk)])
        confidence.append(peak_probability(scores)[0, : len(chunk)])
    return target.pixels(torch.cat(cells)), torch.cat(confidence).cpu().numpy()


def _scores(queries: Tensor, target: Ready) -> Tensor:
    """Score maps ``(1, Q', h, w)`` of queries ``(Q, C)``, filled up to a multiple of :data:`ROW_MULTIPLE`."""
    missing = -len(queries) % ROW_MULTIPLE
    filled = torch.cat([queries, queries[-1:].expand(missing, -1)]) if missing else queries
    scores: Tensor = (filled @ target.rows.t()).unflatten(1, target.map_size)[None]
    return scores


def _grouped(pairs: Sequence[Pair], key: Callable[[Pair], str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index, pair in enumerate(pairs):
        groups.setdefault(key(pair), []).append(index)
    return groups
