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

from simsc.bulk.lookup import Found, Query, Ready, calibrated, judge_all, look_up, votes_of
from simsc.bulk.store import Encodings
from simsc.coordinates import Size
from simsc.errors import DataError, SimscError
from simsc.matcher import EncodedImage, Matcher
from simsc.matcher.queries import check_query
from simsc.matching.coherence import Polls
from simsc.matching.features import COARSE

MAX_QUERY_BYTES = 128 << 20
"""Query features that are held at a time."""

UNKNOWN_COUNT = 64
"""Points of an annotation that has not been read yet."""

_VOTE = 5  # numbers: two places and a weight


@dataclass
class Pair:
    """Two images by path, and points ``(n, 2)`` in pixels of the first.

    Where the points depend on the image's size, ``ask`` finds them once it is known, about ``count`` of them.
    """

    source: str
    target: str
    points: np.ndarray | None = None
    ask: Callable[[Size], np.ndarray] | None = None
    count: int = UNKNOWN_COUNT
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
    head = matcher.model.head
    for block in _blocks(pairs, order, head.channels, shared=not cycle, coherent=head.coherent):
        chosen = [pairs[index] for index in block]
        ways = [(pair.source, pair.target) for pair in chosen]
        polls = Polls([*ways, *(way[::-1] for way in ways)] if cycle else ways)
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
        count = 0 if shared and key in held else pair.count if pair.points is None else len(pair.points)
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
        ways = [(pairs[index].source, path) for index in members]
        votes = votes_of(polls, list(zip(ways, queries, strict=True)), target)
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
            sets = {each.tobytes(): each for each in points.values()}  # equal ones are read once
            queries = dict(zip(sets, source.ask_all(list(sets.values()), judged), strict=True))
            asked.update({index: queries[each.tobytes()] for index, each in points.items()})
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


def _grouped(pairs: Sequence[Pair], key: Callable[[Pair], str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for index, pair in enumerate(pairs):
        groups.setdefault(key(pair), []).append(index)
    return groups
