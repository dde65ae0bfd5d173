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
from simsc.matcher.matcher import judge
from simsc.matcher.queries import check_query
from simsc.matching.coherence import Expected, Votes, cast_votes, compare, expect, penalty, shares_of
from simsc.matching.features import COARSE, neighbours
from simsc.matching.localize import localize, peak_probability
from simsc.matching.scores import unit_features
from simsc.matching.signals import coherence_signals, distinctness, map_signals

ROW_MULTIPLE = 16
"""Products have a multiple of so many rows: a row's digits then do not depend on how many others there are."""

MAX_SCORES = 1 << 20
"""Scores of one product, in whole multiples of rows: products of more rows are hardly faster, and take memory."""

MAX_QUERY_BYTES = 128 << 20
"""Query features that are held at a time."""

_VOTE = 5  # numbers: two places and a weight
_UNKNOWN_COUNT = 64  # of points that are only known once the image's size is


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


class Polls:
    """The votes of pairs of images by name, cast once for both directions where both will be asked for.

    Which image is the first of a comparison depends on names alone: the order of pairs then changes no digit.
    """

    def __init__(self, both: bool) -> None:
        self.both = both
        self._cast: dict[tuple[str, str], Votes] = {}

    def votes(self, source: str, query: Query, target: str, ready: Ready) -> Votes | None:
        """How the source votes over the target; None without coherence."""
        if query.units is None or ready.units is None:
            return None
        way, back = (source, target), (target, source)
        if way not in self._cast:
            heat = query.temperature * ready.temperature
            if source <= target:
                ballot = compare(query.units, ready.units, heat)
            else:
                ballot = compare(ready.units, query.units, heat).turned()
            self._cast[way] = cast_votes(ballot)
            if self.both:
                self._cast.setdefault(back, cast_votes(ballot.turned()))
        return self._cast[way]


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


@dataclass
class Pair:
    """Two images by path, and points ``(n, 2)`` in pixels of the first.

    Where the points depend on the image's size, ``ask`` finds them once it is known.
    """

    source: str
    target: str
    points: np.ndarray | None = None
    ask: Callable[[Size], np.ndarray] | None = None
    size: Size = (0, 0)

    def query(self, size: Size) -> np.ndarray:
        """The points, checked against the ``(height, width)`` of the source, which is noted."""
        self.size = size
        if self.points is None:
            if self.ask is None:
                raise DataError("no points: the row has neither points nor annotations, and no grid was asked for")
            self.points = self.ask(size)
        self.points = check_query(self.points, size)
        return self.points


@torch.inference_mode()
def match_plain(matcher: Matcher, images: Encodings[Ready], pairs: Sequence[Pair], cycle: bool) -> list[Found | str]:
    """Matches of all pairs in their order; a pair whose images cannot be used gets the reason.

    With ``cycle`` they are matched back too, and judged if the model has a calibration.
    """
    results: list[Found | str] = [""] * len(pairs)
    order = sorted(range(len(pairs)), key=lambda index: (pairs[index].target, pairs[index].source))
    channels = matcher.model.backbone.channels
    for block in _blocks(pairs, order, channels, shared=not cycle, coherent=matcher.model.head.coherent):
        chosen, polls = [pairs[index] for index in block], Polls(both=cycle)
        answers = _match_block(matcher, images, chosen, polls, judged=cycle and calibrated(matcher))
        if cycle:
            _match_back(matcher, images, chosen, polls, answers)
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
        facts = result.points, result.confidence, result.status, result.temperature
        results[index] = Found(*facts, cycle_error=result.cycle_error, mirrored=result.mirrored)
    return results


def _blocks(
    pairs: Sequence[Pair], order: Sequence[int], channels: int, shared: bool, coherent: bool = False
) -> list[list[int]]:
    """Pairs in order, cut where the query features of a block would not fit.

    ``shared``: equal points count once; ``coherent``: each source is held with its coarse units, each pair with votes.
    """
    limit = max(MAX_QUERY_BYTES // (4 * channels), 1)
    per_source, per_pair = (COARSE**2, -(-(COARSE**2) * 2 * _VOTE // channels)) if coherent else (0, 0)
    blocks: list[list[int]] = [[]]
    held: dict[tuple[str, object], int] = {}
    sources: set[str] = set()
    total = 0
    for index in order:
        pair = pairs[index]
        key = pair.source, pair.ask if pair.points is None else pair.points.tobytes()
        count = 0 if shared and key in held else _UNKNOWN_COUNT if pair.points is None else len(pair.points)
        more = per_pair + (0 if pair.source in sources else per_source)
        if total + count + more > limit and blocks[-1]:
            blocks.append([])
            held, sources, total = {}, set(), 0
        blocks[-1].append(index)
        held[key] = count
        sources.add(pair.source)
        total += count + more
    return blocks


def _match_block(
    matcher: Matcher, images: Encodings[Ready], pairs: Sequence[Pair], polls: Polls, judged: bool = False
) -> list[Found | str]:
    """Sources one after the other, then targets in the opposite order: what was used last is still in memory."""
    answers: list[Found | str] = [""] * len(pairs)
    asked = _ask(images, pairs, answers, judged)
    for path, members in sorted(_grouped(pairs, lambda pair: pair.target).items(), reverse=True):
        members = [index for index in members if index in asked]
        if not members:
            continue
        try:
            target = images.get(path)
        except (SimscError, OSError, MemoryError) as error:
            _refuse(answers, members, error)
            continue
        queries = [asked[index] for index in members]
        votes = [
            polls.votes(pairs[index].source, query, path, target) for index, query in zip(members, queries, strict=True)
        ]
        found = look_up(matcher, target, queries, votes, judged)
        for index, each in zip(members, found, strict=True):
            answers[index] = each
    return answers


def _ask(images: Encodings[Ready], pairs: Sequence[Pair], answers: list[Found | str], judged: bool) -> dict[int, Query]:
    """What each pair looks up; a pair that cannot be asked gets the reason as its answer."""
    asked: dict[int, Query] = {}
    for path, members in sorted(_grouped(pairs, lambda pair: pair.source).items()):
        try:
            source = images.get(path)
        except (SimscError, OSError, MemoryError) as error:
            _refuse(answers, members, error)
            continue
        points = {}
        for index in members:
            try:
                points[index] = pairs[index].query(source.frame.original)
            except SimscError as error:
                _refuse(answers, [index], error)
        if points:
            asked.update(_ask_once(source, points, judged))
    return asked


def _refuse(answers: list[Found | str], members: Sequence[int], error: Exception) -> None:
    for index in members:
        answers[index] = str(error)


def _match_back(
    matcher: Matcher, images: Encodings[Ready], pairs: Sequence[Pair], polls: Polls, answers: list[Found | str]
) -> None:
    """Match the answers back, and judge them by how far from the queries that leads."""
    there = [(index, answer) for index, answer in enumerate(answers) if isinstance(answer, Found)]
    ways = [Pair(pairs[index].target, pairs[index].source, answer.points) for index, answer in there]
    judged, sides = [], []
    for (index, answer), back in zip(there, _match_block(matcher, images, ways, polls), strict=True):
        if isinstance(back, str):
            answers[index] = back
            continue
        answer.cycle_error = np.linalg.norm(back.points - pairs[index].points, axis=1)
        judged.append(answer)
        sides.append(max(pairs[index].size))
    if judged and calibrated(matcher):
        judge_all(matcher, judged, sides)


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


def _ask_once(source: Ready, asked: dict[int, np.ndarray], judged: bool) -> dict[int, Query]:
    """Several sets of points of one image, by any index; equal sets are read once."""
    sets = {points.tobytes(): points for points in asked.values()}
    queries = dict(zip(sets, source.ask_all(list(sets.values()), judged), strict=True))
    return {index: queries[points.tobytes()] for index, points in asked.items()}


def look_up(
    matcher: Matcher, target: Ready, asked: Sequence[Query], votes: Sequence[Votes | None], judged: bool = False
) -> list[Found]:
    """Any number of queries over one target, each with the :class:`Polls` of its image; with signals if ``judged``."""
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
    found = [expect(each, query.shares) for query, each in zip(asked, votes, strict=True) if each is not None]
    return Expected(*(torch.cat(parts) for parts in zip(*found, strict=True))) if found else None


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


def _grouped(pairs: Sequence[Pair], key: Callable[[Pair], str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index, pair in enumerate(pairs):
        groups.setdefault(key(pair), []).append(index)
    return groups
