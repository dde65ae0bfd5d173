"""Coherence of neighbouring matches: where a point should lie, judging by the matches around it; beyond the paper.

A fine-tuned network is sharpest at the kinds of points it was taught, and draws others towards them. Their neighbours
know better: parts that are side by side in one image mostly are in the other. So every cell of a coarse grid votes
with its own best match; around a point, the votes are fitted by a local affine map that outliers cannot bend; and the
point's score map is lowered where that map would not have it, the less so the less the votes agree. What is a share
here is one of a map's larger side, so that grids of any size compare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.coordinates import Size
from simsc.matching.features import Features
from simsc.matching.localize import around_best, peak_probability
from simsc.matching.scores import ScoreMaps

REACH = 0.12
"""Standard deviation of the neighbourhood that a point asks."""
STIFFNESS = 0.3
"""Pull of the local map towards a mere shift, in votes."""
OUTLIER = 0.07
"""Distance from the local map at which a vote counts half."""
CLOSING = 0.05
"""Distance, there and back, at which a vote's weight falls to a third."""
SLACK = 0.1
"""How far from the expected place a point may well lie where all votes agree."""
SPREAD = 1.5
"""How much further, for each unit of the votes' own distance from the local map."""
DOUBT = 0.1
"""What the expected place can lower a probability to, where all votes agree; divided by their share, cubed."""
AT_ONCE = 16
"""Pairs of images that are compared, or whose points are expected, in one computation."""
POINTS_AT_ONCE = 2048
"""Points that are expected in one computation, if they are of several pairs."""
ROWS = 16
"""Points are filled up to a multiple of so many where those of several pairs are expected at once."""

Item = TypeVar("Item")
Way = tuple[str, str]
"""Names of a source and a target."""

_ROUNDS = 4  # of re-weighting: further ones move a local map by less than a tenth of a cell
_LEAST_SHARE = 0.05
_TINY = 1e-6
_PULL = [0.0] * 5 + [STIFFNESS * REACH**2, 0.0, 0.0, 0.0, 0.0, STIFFNESS * REACH**2, 0.0, 0.0]  # of slopes towards 0


class Ballot(NamedTuple):
    """Two coarse grids of ``m`` and ``n`` cells, compared once for the votes of both; several pairs of grids in front.

    Attributes:
        scores: ``(..., m, n)`` of the source's cells over those of the target, temperature applied.
        there: ``(..., m)`` the best cell of the target for each of the source.
        back: ``(..., n)`` the best cell of the source for each of the target.
        sizes: ``(h, w)`` of the source's grid and of the target's.
    """

    scores: Tensor
    there: Tensor
    back: Tensor
    sizes: tuple[Size, Size]

    def turned(self) -> Ballot:
        """The same with target and source in each other's place."""
        return Ballot(self.scores.transpose(-1, -2).contiguous(), self.back, self.there, self.sizes[::-1])


class Votes(NamedTuple):
    """What each cell of a coarse grid of the source says: ``m`` votes, positions as shares of each map's larger side.

    Attributes:
        source, target: ``(..., m, 2)`` xy of the cells and of their matches.
        weight: ``(..., m)`` peak probability, less for matches that do not lead back.
    """

    source: Tensor
    target: Tensor
    weight: Tensor


class Expected(NamedTuple):
    """Where points should lie, by the votes around them.

    Attributes:
        place: ``(..., n, 2)`` xy as shares of the target map's larger side.
        width: ``(..., n)`` how far the votes that count are from the local map, root mean square.
        share: ``(..., n)`` how much of the votes' weight agrees with it, in [0, 1].
        support: ``(..., n)`` mean weight of the votes around a point.
        common: ``(..., n)`` mean weight of all votes, what both images have in common.
    """

    place: Tensor
    width: Tensor
    share: Tensor
    support: Tensor
    common: Tensor


def compare(source: Tensor, target: Tensor, temperature: float | Tensor) -> Ballot:
    """Compare the coarse units ``(..., C, h, w)`` of two images, or of several pairs at their own temperatures."""
    sizes = (source.shape[-2], source.shape[-1]), (target.shape[-2], target.shape[-1])
    if isinstance(temperature, Tensor):
        temperature = temperature[..., None, None]
    scores = source.flatten(-2).transpose(-1, -2) @ target.flatten(-2) / temperature
    there, back = (scores.max(dim=side).indices for side in (-1, -2))  # quicker than argmax
    return Ballot(scores, there, back, sizes)


def compare_all(source: Features, target: Features) -> Ballot:
    """Compare each image of a batch with its partner, at the temperature of the pair."""
    return compare(source.coarse, target.coarse, (source.temperature * target.temperature).to(torch.float32))


def cast_votes(ballot: Ballot) -> Votes:
    """The votes of the source's cells; those of the target's are ``cast_votes(ballot.turned())``.

    >>> units = torch.eye(16).reshape(16, 4, 4)
    >>> votes = cast_votes(compare(units, units, 0.01))
    >>> bool((votes.source - votes.target).abs().max() < 1e-3), votes.weight.min().round().item()
    (True, 1.0)
    """
    here = cell_shares(ballot.sizes[0], ballot.scores)
    closing = torch.exp(-(here[ballot.back.gather(-1, ballot.there)] - here).norm(dim=-1) / CLOSING)
    maps = ballot.scores.unflatten(-1, ballot.sizes[1])
    maps = maps.reshape(-1, *maps.shape[-3:])
    found = shares_of(around_best(maps, ballot.there.reshape(len(maps), -1)), ballot.sizes[1])
    peak = peak_probability(maps).reshape(closing.shape)
    return Votes(here.expand(*closing.shape, 2), found.reshape(*closing.shape, 2), closing * peak)


class Polls:
    """The votes of pairs of images by name, cast once; where both directions are asked for, from one comparison.

    Which image is the first of a comparison depends on names alone: the order of pairs then changes no digit.

    Args:
        ways: names of sources and targets whose votes will be asked for.
    """

    def __init__(self, ways: Iterable[Way]) -> None:
        self._ways = set(ways)
        self._cast: dict[Way, Votes] = {}

    def votes(self, asked: Sequence[tuple[Way, Tensor, Tensor, float]]) -> list[Votes]:
        """How sources vote over targets; for each the names of both, coarse units ``(C, h, w)``, and temperature."""
        open_ways: dict[tuple[Size, ...], dict[Way, tuple[Tensor, Tensor, float]]] = defaultdict(dict)
        for way, source, target, temperature in asked:
            if way not in self._cast:
                ends = (source, target) if way[0] <= way[1] else (target, source)
                kind = tuple((end.shape[1], end.shape[2]) for end in ends)
                open_ways[kind][min(way, way[::-1])] = (*ends, temperature)
        for alike in open_ways.values():
            for names in _batched(alike, AT_ONCE):
                self._compare(names, [alike[name] for name in names])
        return [self._cast[way] for way, *_ in asked]

    def _compare(self, names: Sequence[Way], ends: Sequence[tuple[Tensor, Tensor, float]]) -> None:
        first, second, heats = zip(*ends, strict=True)
        ballot = compare(_side_by_side(first), _side_by_side(second), first[0].new_tensor(heats))
        for turned in (False, True):
            wanted = {(name[::-1] if turned else name): place for place, name in enumerate(names)}
            wanted = {way: place for way, place in wanted.items() if way in self._ways and way not in self._cast}
            if wanted:
                cast = cast_votes(ballot.turned() if turned else ballot)
                self._cast.update({way: Votes(*(part[place] for part in cast)) for way, place in wanted.items()})


def _side_by_side(units: Sequence[Tensor]) -> Tensor:
    """Coarse units ``(C, h, w)`` as one batch ``(B, C, h, w)`` in which a cell's channels stay side by side."""
    return torch.stack([each.permute(1, 2, 0) for each in units]).permute(0, 3, 1, 2)


def expect(votes: Votes, points: Tensor) -> Expected:
    """Where points ``(..., n, 2)``, as shares of the source map's larger side, should lie.

    Weighted least squares of the votes' shifts around each point, re-weighted so that outliers lose their say. All
    sums of a round are one product with the ``(n, m)`` weights, and the two slopes have a closed form.
    """
    here, shift = votes.source, votes.target - votes.source
    apart = _apart(points, here, 0).square() + _apart(points, here, 1).square()
    near = torch.exp(-apart / (2 * REACH**2))
    asked = say = near * votes.weight[..., None, :]
    ones = torch.ones_like(here[..., :1])
    summands, grid = _summands(here, shift, ones), torch.cat([here, ones], dim=-1).transpose(-1, -2)
    pull = summands.new_tensor(_PULL)
    for _ in range(_ROUNDS):
        planes = _fit(say @ summands + pull)
        across, down = (planes[..., side, :] @ grid - shift[..., None, :, side] for side in (0, 1))
        distance = across.square() + down.square()
        say = OUTLIER**2 * asked / (OUTLIER**2 + distance)
    place = points + (planes[..., :2] * points[..., None, :]).sum(dim=-1) + planes[..., 2]
    total, whole = say.sum(dim=-1).clamp(min=_TINY), asked.sum(dim=-1).clamp(min=_TINY)
    width = ((say * distance).sum(dim=-1) / total).sqrt()
    common = votes.weight.mean(dim=-1, keepdim=True).expand(width.shape)
    return Expected(place, width, total / whole, whole / near.sum(dim=-1), common)


def expect_all(votes: Sequence[Votes], points: Sequence[Tensor]) -> Expected:
    """:func:`expect` of the points ``(n_i, 2)`` of many pairs, one pair after the other; several in one computation.

    Every pair is filled up to a multiple of :data:`ROWS` points, so that its digits do not depend on the others.
    """
    kinds: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, (each, places) in enumerate(zip(votes, points, strict=True)):
        kinds[len(each.weight), -(-len(places) // ROWS) * ROWS].append(index)
    found: dict[int, Expected] = {}
    for (_, rows), members in kinds.items():
        for chunk in _batched(members, max(1, min(AT_ONCE, POINTS_AT_ONCE // max(rows, 1)))):
            joined = Votes(*(torch.stack(parts) for parts in zip(*(votes[index] for index in chunk), strict=True)))
            filled = torch.stack([F.pad(points[index], (0, 0, 0, rows - len(points[index]))) for index in chunk])
            expected = expect(joined, filled)
            for place, index in enumerate(chunk):
                found[index] = Expected(*(part[place, : len(points[index])] for part in expected))
    return Expected(*(torch.cat(parts) for parts in zip(*(found[index] for index in range(len(votes))), strict=True)))


def _batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Items in lists of at most ``size``."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def _apart(points: Tensor, here: Tensor, side: int) -> Tensor:
    """Distances ``(..., n, m)`` along one side."""
    return points[..., :, None, side] - here[..., None, :, side]


def _summands(here: Tensor, shift: Tensor, ones: Tensor) -> Tensor:
    """What :func:`_fit` wants the sums of, ``(..., m, 13)``: 1, x, y, u, v, and x and y times the last four."""
    both = torch.cat([here, shift], dim=-1)
    return torch.cat([ones, both, here[..., :1] * both, here[..., 1:] * both], dim=-1)


def _fit(sums: Tensor) -> Tensor:
    """Weighted least squares of shifts (u, v) at places (x, y), of sums ``(..., n, 13)`` over :func:`_summands`.

    Returns:
        ``(..., n, 2, 3)`` for both sides of the shift the slope along x, along y, and the constant.
    """
    total, first, second = sums.split((1, 4, 8), dim=-1)
    means = first / total.clamp(min=_TINY)
    spread = second - (first[..., :2, None] * means[..., None, :]).flatten(-2)
    xx, xy, x_shift, _, yy, y_shift = spread.split((1, 1, 2, 1, 1, 2), dim=-1)
    slopes = torch.stack([yy * x_shift - xy * y_shift, xx * y_shift - xy * x_shift], dim=-1)
    slopes = slopes / (xx * yy - xy * xy)[..., None]
    constant = means[..., 2:] - (slopes * means[..., None, :2]).sum(dim=-1)
    return torch.cat([slopes, constant[..., None]], dim=-1)


def penalty(expected: Expected, size: Size) -> Tensor:
    """What to add to score maps ``(..., n, h, w)`` of a target: 0 at the expected place, negative elsewhere."""
    reach = (SLACK**2 + (SPREAD * expected.width) ** 2)[..., None]
    across, down = (
        torch.exp(-((_centres(length, max(size), reach) - expected.place[..., side, None]) ** 2) / (2 * reach))
        for side, length in enumerate((size[1], size[0]))
    )
    doubt = (DOUBT / expected.share.clamp(min=_LEAST_SHARE) ** 3)[..., None, None]
    lowered: Tensor = (down[..., :, None] * across[..., None, :] + doubt) / (1 + doubt)
    return lowered.log()


def cell_shares(size: Size, like: Tensor) -> Tensor:
    """Centres ``(h * w, 2)`` of a map's cells, xy as shares of its larger side.

    >>> cell_shares((1, 2), torch.zeros(1)).tolist()
    [[0.25, 0.25], [0.75, 0.25]]
    """
    down, across = (_centres(length, max(size), like) for length in size)
    return torch.stack(torch.meshgrid(across, down, indexing="xy"), dim=-1).flatten(0, 1)


def _centres(length: int, side: int, like: Tensor) -> Tensor:
    return (torch.arange(length, device=like.device, dtype=like.dtype) + 0.5) / side


def shares_of(cells: Tensor, size: Size) -> Tensor:
    """Points ``(..., 2)`` in cells of a map of ``size`` as shares of its larger side, from its upper left corner."""
    return (cells.to(torch.float32) + 0.5) / max(size)


class Coherent:
    """Score maps of two (batches of) images that heed the matches around a point; votes are cast once.

    Args:
        scores: of each point for itself.
        ballot: the images of each pair compared, see :func:`compare_all`.
        sizes: ``(h, w)`` of the sources' maps and of the targets'.
    """

    def __init__(self, scores: ScoreMaps, ballot: Ballot, sizes: tuple[Size, Size]) -> None:
        self.scores, self.sizes = scores, sizes
        self.votes = cast_votes(ballot)

    def __call__(self, points: Tensor) -> Tensor:
        """Points ``(B, N, 2)`` in cells of the sources -> scores ``(B, N, h, w)``."""
        return self.heed(points)[0]

    def heed(self, points: Tensor) -> tuple[Tensor, Expected]:
        """The scores, and where the points of each pair should lie."""
        expected = expect(self.votes, shares_of(points, self.sizes[0]))
        return self.scores(points) + penalty(expected, self.sizes[1]), expected
