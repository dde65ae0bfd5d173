"""Looking points up: what of an image is computed once, and any number of queries over a target in one product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import Size, resize_points
from simsc.frames import Frame
from simsc.matcher import EncodedImage, Matcher
from simsc.matcher.matcher import judge
from simsc.matching.coherence import Expected, Polls, Votes, Way, expect_all, penalty, shares_of
from simsc.matching.features import neighbours
from simsc.matching.localize import localize, peak_probability
from simsc.matching.scores import unit_features
from simsc.matching.signals import coherence_signals, distinctness, map_signals

ROW_MULTIPLE = 16
"""Products have a multiple of so many rows: a row's digits then do not depend on how many others there are."""

MAX_SCORES = 1 << 20
"""Scores of one product, in whole multiples of rows: products of more rows are hardly faster, and take memory."""


@dataclass(frozen=True)
class Ready:
    """An image in the form that products take.

    Attributes:
        rows: ``(h * w, C)`` features, normalised and divided by the temperature.
        map_size: ``(h, w)``.
        temperature: of the image.
        frame: how it entered the network.
        units: ``(C, h', w')`` what its cells vote by, for models that heed coherence.
    """

    rows: Tensor
    map_size: Size
    temperature: float
    frame: Frame
    units: Tensor | None = None

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.rows.nbytes + (0 if self.units is None else self.units.nbytes)

    def cells(self, points: np.ndarray) -> Tensor:
        """Pixels ``(n, 2)`` of the image as shown -> cells."""
        cells = resize_points(self.frame.to_network(points), self.frame.canvas, self.map_size, self.frame.convention)
        return torch.from_numpy(cells).to(self.rows.device, torch.float32)

    def pixels(self, cells: Tensor) -> np.ndarray:
        """Cells ``(n, 2)`` -> pixels of the image as shown."""
        exact = cells.cpu().numpy().astype(np.float64)
        return self.frame.to_original(resize_points(exact, self.map_size, self.frame.canvas, self.frame.convention))

    def ask(self, points: np.ndarray, judged: bool = False) -> Query:
        """Points in pixels, ready to be looked up; ``judged`` as in :func:`look_up`."""
        return self.ask_all([points], judged)[0]

    def ask_all(self, sets: Sequence[np.ndarray], judged: bool) -> list[Query]:
        """Several sets of points at once."""
        cells = self.cells(np.concatenate(sets))
        around, weights = neighbours(cells, self.map_size)
        features = (self.rows.index_select(0, around.flatten()).unflatten(0, around.shape) * weights[..., None]).sum(1)
        shares, counts = shares_of(cells, self.map_size), [len(points) for points in sets]
        distinct = self._distinct(features, shares) if judged and self.units is not None else None
        parts = zip(
            features.split(counts),
            shares.split(counts),
            [None] * len(sets) if distinct is None else distinct.split(counts),
            strict=True,
        )
        return [Query(part, self.temperature, places, self.units, unlike) for part, places, unlike in parts]

    def _distinct(self, features: Tensor, shares: Tensor) -> Tensor:
        """How unlike other places ``(n, 2)`` points of ``features (n, C)`` are, a bounded number at a time."""
        found = []
        for chunk, places in zip(*(part.split(_at_once(self)) for part in (features, shares)), strict=True):
            alike = (_filled(chunk) @ self.rows.t())[: len(chunk)] * self.temperature**2
            found.append(distinctness(alike, places, self.map_size))
        return torch.cat(found)


@dataclass(frozen=True)
class Query:
    """Points of a source, with all of it that looking them up takes.

    Attributes:
        features: ``(n, C)`` of the points.
        temperature: of the source.
        shares: ``(n, 2)`` the points as shares of the source's larger side.
        units: of the source, see :class:`Ready`.
        distinct: ``(n, 2)`` how unlike other places of the source they are, with ``units`` and where it will be judged.
    """

    features: Tensor
    temperature: float
    shares: Tensor
    units: Tensor | None
    distinct: Tensor | None


def plain(matcher: Matcher) -> bool:
    """Whether scores are products of features alone, so that :class:`Ready` is all they need of an image."""
    head = matcher.model.head
    return head.compares_features and head.query == "normalize-then-sample" and not matcher.flip


def calibrated(matcher: Matcher) -> bool:
    """Whether the model knows how often its matches are right."""
    return matcher.trained.calibration is not None


def make_ready(matcher: Matcher) -> Callable[[EncodedImage], Ready]:
    """From an encoding to the form that products take."""

    def ready(image: EncodedImage) -> Ready:
        features = image.features
        units = unit_features(features.maps, features.beta, matcher.model.normalize)
        rows = units[0].flatten(1).t().contiguous()
        coarse = features.coarse[0] if matcher.model.head.coherent else None
        return Ready(rows, features.map_size, float(features.temperature), image.frame, coarse)

    return ready


@dataclass
class Found:
    """The matches of a pair.

    Attributes:
        points: ``(n, 2)`` float64 xy in pixels of the target.
        confidence, status: ``(n,)`` as of :class:`simsc.matcher.MatchResult`; without the way back, the peak
            probability and ``unsure``.
        temperature: of the pair.
        signals: ``(n, 4)`` of the score maps, 11 with coherence, or None where nobody will judge by them.
        cycle_error: ``(n,)`` pixels of the source; None without the way back.
        mirrored: whether the mirror image of the source was matched.
    """

    points: np.ndarray
    confidence: np.ndarray
    status: np.ndarray
    temperature: float
    signals: np.ndarray | None = None
    cycle_error: np.ndarray | None = None
    mirrored: bool = False


def judge_all(matcher: Matcher, found: Sequence[Found], sides: Sequence[int]) -> None:
    """Turn what is known of matches into confidence and status; ``sides`` are the larger ones of the sources."""
    counts = [len(each.points) for each in found]
    names = "signals", "cycle_error", "confidence"
    signals, errors, peaks = (np.concatenate([getattr(each, name) for each in found]) for name in names)
    trust = judge(matcher.trained.calibration, signals, errors, np.repeat(sides, counts), peaks)
    ends = np.cumsum(counts)[:-1]
    parts = zip(found, np.split(trust.confidence, ends), np.split(trust.status, ends), strict=True)
    for each, confidence, status in parts:
        each.confidence, each.status = confidence, status


def votes_of(polls: Polls, asked: Sequence[tuple[Way, Query]], target: Ready) -> list[Votes | None]:
    """How the sources of queries vote over a target, each known by the names of both; None without coherence."""
    known = []
    for way, query in asked:
        if query.units is None or target.units is None:
            return [None] * len(asked)
        known.append((way, query.units, target.units, query.temperature * target.temperature))
    return [*polls.votes(known)]


def look_up(
    matcher: Matcher, target: Ready, asked: Sequence[Query], votes: Sequence[Votes | None], judged: bool = False
) -> list[Found]:
    """Any number of queries over one target, each with the votes of its image; with signals if ``judged``."""
    counts = [len(query.features) for query in asked]
    heats = [query.temperature * target.temperature * matcher.beta_eval for query in asked]
    size = _at_once(target)
    queries = torch.cat([query.features for query in asked]).split(size)
    heat = torch.tensor(heats).repeat_interleave(torch.tensor(counts)).to(target.rows).split(size)
    expected = _expected(asked, votes)
    places: Sequence[Expected | None] = [None] * len(queries) if expected is None else _split(expected, size)
    chunks = zip(queries, heat, places, strict=True)
    table = torch.cat([_columns(matcher, target, *chunk, judged) for chunk in chunks])
    if judged and expected is not None:
        distinct = torch.cat([query.distinct for query in asked if query.distinct is not None])
        table = torch.cat([table, coherence_signals(distinct, expected)], dim=1)
    points, rest = target.pixels(table[:, :2]), table[:, 2:].cpu().numpy()
    found, stop = [], 0
    for count, temperature in zip(counts, heats, strict=True):
        part = slice(stop, stop := stop + count)
        signals = rest[part, 1:] if judged else None
        found.append(Found(points[part], rest[part, 0], np.full(count, "unsure"), temperature, signals))
    return found


def _expected(asked: Sequence[Query], votes: Sequence[Votes | None]) -> Expected | None:
    """Where the points of all queries should lie in the target; None without coherence."""
    known = [(each, query.shares) for query, each in zip(asked, votes, strict=True) if each is not None]
    return expect_all(*zip(*known, strict=True)) if known else None


def _split(expected: Expected, size: int) -> list[Expected]:
    """So many points at a time."""
    return [Expected(*parts) for parts in zip(*(column.split(size) for column in expected), strict=True)]


def _columns(
    matcher: Matcher, target: Ready, queries: Tensor, heat: Tensor, expected: Expected | None, judged: bool
) -> Tensor:
    """Match, peak probability and, if ``judged``, signals ``(n, 3 to 10)`` of queries ``(n, C)`` over a target."""
    further = expected is not None
    if not len(queries):
        return queries.new_zeros(0, (10 if further else 7) if judged else 3)
    scores = _scores(queries, target)
    if expected is not None:
        scores = scores + penalty(Expected(*map(_filled, expected)), target.map_size)
    scores = scores / matcher.beta_eval
    cells = localize(scores, matcher.localizer)
    columns = [cells, peak_probability(scores)[..., None]]
    if judged:
        heat = torch.cat([heat, heat[-1:].expand(scores.shape[1] - len(heat))])
        columns.append(map_signals(scores, cells, heat[None], further))
    return torch.cat(columns, dim=-1)[0, : len(queries)]


def _scores(queries: Tensor, target: Ready) -> Tensor:
    """Score maps ``(1, Q', h, w)`` of queries ``(Q, C)``, filled up to a multiple of :data:`ROW_MULTIPLE`."""
    scores: Tensor = (_filled(queries) @ target.rows.t()).unflatten(1, target.map_size)[None]
    return scores


def _at_once(image: Ready) -> int:
    """How many queries one product over an image has."""
    return max(MAX_SCORES // len(image.rows) // ROW_MULTIPLE, 1) * ROW_MULTIPLE


def _filled(rows: Tensor) -> Tensor:
    """Rows ``(n, ...)``, the last one repeated up to a multiple of :data:`ROW_MULTIPLE`."""
    missing = -len(rows) % ROW_MULTIPLE
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])]) if missing else rows
