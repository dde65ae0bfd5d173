"""Coherence of neighbouring matches: where a point should lie, judging by the matches around it; beyond the paper.

A fine-tuned network is sharpest at the kinds of points it was taught, and draws others towards them. Their neighbours
know better: parts that are side by side in one image mostly are in the other. So every cell of a coarse grid votes
with its own best match; around a point, the votes are fitted by a local affine map that outliers cannot bend; and the
point's score map is lowered where that map would not have it, the less so the less the votes agree. What is a share
here is one of a map's larger side, so that grids of any size compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
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

_ROUNDS = 4  # of re-weighting: further ones move a local map by less than a tenth of a cell
_LEAST_SHARE = 0.05
_TINY = 1e-6
_PULL = [0.0] * 5 + [STIFFNESS * REACH**2, 0.0, 0.0, 0.0, 0.0, STIFFNESS * REACH**2, 0.0, 0.0]  # of slopes towards 0


class Ballot(NamedTuple):
    """Two coarse grids of ``m`` and ``n`` cells, compared once for the votes of both.

    Attributes:
        scores: ``(m, n)`` of the source's cells over those of the target, temperature applied.
        there: ``(m,)`` the best cell of the target for each of the source.
        back: ``(n,)`` the best cell of the source for each of the target.
        sizes: ``(h, w)`` of the source's grid and of the target's.
    """

    scores: Tensor
    there: Tensor
    back: Tensor
    sizes: tuple[Size, Size]

    def turned(self) -> Ballot:
        """The same with target and source in each other's place."""
        return Ballot(self.scores.t().contiguous(), self.back, self.there, self.sizes[::-1])


class Votes(NamedTuple):
    """What each cell of a coarse grid of the source says: ``m`` votes, positions as shares of each map's larger side.

    Attributes:
        source, target: ``(m, 2)`` xy of the cells and of their matches.
        weight: ``(m,)`` peak probability, less for matches that do not lead back.
    """

    source: Tensor
    target: Tensor
    weight: Tensor


class Expected(NamedTuple):
    """Where points should lie, by the votes around them.

    Attributes:
        place: ``(n, 2)`` xy as shares of the target map's larger side.
        width: ``(n,)`` how far the votes that count are from the local map, root mean square.
        share: ``(n,)`` how much of the votes' weight agrees with it, in [0, 1].
        support: ``(n,)`` mean weight of the votes around a point.
        common: ``(n,)`` mean weight of all votes, what both images have in common.
    """

    place: Tensor
    width: Tensor
    share: Tensor
    support: Tensor
    common: Tensor


def compare(source: Tensor, target: Tensor, temperature: float | Tensor) -> Ballot:
    """Compare the coarse units ``(C, h, w)`` of two images."""
    sizes = (source.shape[-2], source.shape[-1]), (target.shape[-2], target.shape[-1])
    scores = source.flatten(1).t() @ target.flatten(1) / temperature
    there, back = (scores.max(dim=side).indices for side in (1, 0))  # quicker than argmax
    return Ballot(scores, there, back, sizes)


def compare_all(source: Features, target: Features) -> list[Ballot]:
    """Compare each image of a batch with its partner, at the temperature of the pair."""
    heat = (source.temperature * target.temperature).to(torch.float32)
    return [compare(*pair) for pair in zip(source.coarse, target.coarse, heat, strict=True)]


def cast_votes(ballot: Ballot) -> Votes:
    """The votes of the source's cells; those of the target's are ``cast_votes(ballot.turned())``.

    >>> units = torch.eye(16).reshape(16, 4, 4)
    >>> votes = cast_votes(compare(units, units, 0.01))
    >>> bool((votes.source - votes.target).abs().max() < 1e-3), votes.weight.min().round().item()
    (True, 1.0)
    """
    here = cell_shares(ballot.sizes[0], ballot.scores)
    closing = torch.exp(-(here[ballot.back[ballot.there]] - here).norm(dim=1) / CLOSING)
    maps = ballot.scores.unflatten(1, ballot.sizes[1])[None]
    found = shares_of(around_best(maps, ballot.there[None])[0], ballot.sizes[1])
    return Votes(here, found, closing * peak_probability(maps)[0])


class Polls:
    """The votes of pairs of images by name, cast once; where both directions are asked for, from one comparison.

    Which image is the first of a comparison depends on names alone: the order of pairs then changes no digit.

    Args:
        ways: names of sources and targets whose votes will be asked for.
    """

    def __init__(self, ways: Iterable[tuple[str, str]]) -> None:
        self._ways = set(ways)
        self._cast: dict[tuple[str, str], Votes] = {}

    def votes(self, way: tuple[str, str], source: Tensor, target: Tensor, temperature: float) -> Votes:
        """How a source votes over a target, both given by name and by coarse units ``(C, h, w)``."""
        if way not in self._cast:
            straight = way[0] <= way[1]
            ballot = compare(source, target, temperature) if straight else compare(target, source, temperature).turned()
            self._cast[way] = cast_votes(ballot)
            if (back := way[::-1]) in self._ways:
                self._cast.setdefault(back, cast_votes(ballot.turned()))
        return self._cast[way]


def expect(votes: Votes, points: Tensor) -> Expected:
    """Where points ``(n, 2)``, as shares of the source map's larger side, should lie.

    Weighted least squares of the votes' shifts around each point, re-weighted so that outliers lose their say. All
    sums of a round are one product with the ``(n, m)`` weights, and the two slopes have a closed form.
    """
    here, shift = votes.source, votes.target - votes.source
    apart = (points[:, :1] - here[:, 0]).square() + (points[:, 1:] - here[:, 1]).square()
    near = torch.exp(-apart / (2 * REACH**2))
    asked = say = near * votes.weight
    ones = torch.ones_like(here[:, :1])
    summands, grid = _summands(here, shift, ones), torch.cat([here, ones], dim=1).t()
    pull = summands.new_tensor(_PULL)
    for _ in range(_ROUNDS):
        planes = _fit(torch.addmm(pull, say, summands))
        across, down = (side @ grid - along for side, along in zip(planes.unbind(1), shift.unbind(1), strict=True))
        distance = across.square() + down.square()
        say = OUTLIER**2 * asked / (OUTLIER**2 + distance)
    place = points + (planes[:, :, :2] * points[:, None]).sum(dim=2) + planes[:, :, 2]
    total, whole = say.sum(dim=1).clamp(min=_TINY), asked.sum(dim=1).clamp(min=_TINY)
    width = ((say * distance).sum(dim=1) / total).sqrt()
    return Expected(place, width, total / whole, whole / near.sum(dim=1), votes.weight.mean().expand(len(points)))


def _summands(here: Tensor, shift: Tensor, ones: Tensor) -> Tensor:
    """What :func:`_fit` wants the sums of, ``(m, 13)``: 1, x, y, u, v, and x and y times the last four."""
    both = torch.cat([here, shift], dim=1)
    return torch.cat([ones, both, here[:, :1] * both, here[:, 1:] * both], dim=1)


def _fit(sums: Tensor) -> Tensor:
    """Weighted least squares of shifts (u, v) at places (x, y), of sums ``(n, 13)`` over :func:`_summands`.

    Returns:
        ``(n, 2, 3)`` for both sides of the shift the slope along x, along y, and the constant.
    """
    total, first, second = sums.split((1, 4, 8), dim=1)
    means = first / total.clamp(min=_TINY)
    spread = second - (first[:, :2, None] * means[:, None]).flatten(1)
    xx, xy, x_shift, _, yy, y_shift = spread.split((1, 1, 2, 1, 1, 2), dim=1)
    slopes = torch.stack([yy * x_shift - xy * y_shift, xx * y_shift - xy * x_shift], dim=2)
    slopes = slopes / (xx * yy - xy * xy)[:, :, None]
    constant = means[:, 2:] - (slopes * means[:, None, :2]).sum(dim=2)
    return torch.cat([slopes, constant[:, :, None]], dim=2)


def penalty(expected: Expected, size: Size) -> Tensor:
    """What to add to score maps ``(n, h, w)`` of a target of ``size``: 0 at the expected place, negative elsewhere."""
    reach = (SLACK**2 + (SPREAD * expected.width) ** 2)[:, None]
    across, down = (
        torch.exp(-((_centres(length, max(size), reach) - expected.place[:, side, None]) ** 2) / (2 * reach))
        for side, length in enumerate((size[1], size[0]))
    )
    doubt = (DOUBT / expected.share.clamp(min=_LEAST_SHARE) ** 3)[:, None, None]
    lowered: Tensor = (down[:, :, None] * across[:, None, :] + doubt) / (1 + doubt)
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
        ballots: the images of each pair compared, see :func:`compare_all`.
        sizes: ``(h, w)`` of the sources' maps and of the targets'.
    """

    def __init__(self, scores: ScoreMaps, ballots: Sequence[Ballot], sizes: tuple[Size, Size]) -> None:
        self.scores, self.sizes = scores, sizes
        self.votes = [cast_votes(ballot) for ballot in ballots]

    def __call__(self, points: Tensor) -> Tensor:
        """Points ``(B, N, 2)`` in cells of the sources -> scores ``(B, N, h, w)``."""
        return self.heed(points)[0]

    def heed(self, points: Tensor) -> tuple[Tensor, list[Expected]]:
        """The scores, and where the points of each pair should lie."""
        expected = [expect(*each) for each in zip(self.votes, shares_of(points, self.sizes[0]), strict=True)]
        lowered = torch.stack([penalty(each, self.sizes[1]) for each in expected])
        return self.scores(points) + lowered, expected
