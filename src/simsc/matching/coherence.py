"""Coherence of neighbouring matches: where a point should lie, judging by the matches around it; beyond the paper.

A fine-tuned network is sharpest at the kinds of points it was taught, and draws others towards them. Their neighbours
know better: parts that are side by side in one image mostly are in the other. So every cell of a coarse grid votes
with its own best match; around a point, the votes are fitted by a local affine map that outliers cannot bend; and the
point's score map is lowered where that map would not have it, the less so the less the votes agree. What is a share
here is one of a map's larger side, so that grids of any size compare.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.coordinates import Size
from simsc.matching.features import Features, at_least_float
from simsc.matching.localize import peak_probability, window_soft_argmax
from simsc.matching.scores import ScoreMaps

VOTERS = 24
"""At most so many votes along a map's larger side."""
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


def coarse_units(maps: Tensor) -> Tensor:
    """Features ``(C, h, w)`` as unit vectors of a coarse grid ``(C, h', w')``."""
    height, width = maps.shape[-2:]
    factor = -(-max(height, width) // VOTERS)
    size = -(-height // factor), -(-width // factor)
    return F.normalize(F.adaptive_avg_pool2d(at_least_float(maps), size), dim=0)


def cast_votes(source: Tensor, target: Tensor, temperature: float | Tensor) -> Votes:
    """The votes of coarse units ``(C, h, w)`` of a source, matched over those of a target.

    >>> units = F.normalize(torch.eye(16).reshape(16, 4, 4), dim=0)
    >>> votes = cast_votes(units, units, 0.01)
    >>> bool((votes.source - votes.target).abs().max() < 1e-3), votes.weight.min().round().item()
    (True, 1.0)
    """
    sizes = (source.shape[-2], source.shape[-1]), (target.shape[-2], target.shape[-1])
    scores = source.flatten(1).t() @ target.flatten(1) / temperature
    maps = scores.unflatten(1, sizes[1])[None]
    here = cell_shares(sizes[0], scores)
    returned = here[scores.argmax(dim=0)[scores.argmax(dim=1)]]
    closing = torch.exp(-(returned - here).norm(dim=1) / CLOSING)
    found = (window_soft_argmax(maps)[0] + 0.5) / max(sizes[1])
    return Votes(here, found, closing * peak_probability(maps)[0])


def expect(votes: Votes, points: Tensor) -> Expected:
    """Where points ``(n, 2)``, as shares of the source map's larger side, should lie.

    Weighted least squares of the votes' shifts around each point, re-weighted so that outliers lose their say. All
    sums are products with the ``(n, m)`` weights, and the two slopes have a closed form.
    """
    here, shift = votes.source, votes.target - votes.source
    apart = (points[:, :1] - here[:, 0]).square() + (points[:, 1:] - here[:, 1]).square()
    near = torch.exp(-apart / (2 * REACH**2))
    grid = torch.cat([here, torch.ones_like(here[:, :1])], dim=1).t()
    asked = near * votes.weight
    say, place, distance = asked, points, asked
    for _ in range(_ROUNDS):
        total = say.sum(dim=1, keepdim=True).clamp(min=_TINY)
        middle, mean = say @ here / total, say @ shift / total
        slope = _slopes(say, here, shift, middle, mean, total)
        place = points + mean + ((points - middle)[:, None] @ slope)[:, 0]
        constant = mean - (middle[:, None] @ slope)[:, 0]
        planes = torch.cat([slope, constant[:, None]], dim=1).unbind(dim=2)  # both sides of the shift, (n, 3) each
        across, down = (plane @ grid - shift[:, side] for side, plane in enumerate(planes))
        distance = across.square() + down.square()
        say = asked / (1 + distance / OUTLIER**2)
    total, whole = say.sum(dim=1).clamp(min=_TINY), asked.sum(dim=1).clamp(min=_TINY)
    width = ((say * distance).sum(dim=1) / total).sqrt()
    return Expected(place, width, total / whole, whole / near.sum(dim=1), votes.weight.mean().expand(len(points)))


def _slopes(say: Tensor, here: Tensor, shift: Tensor, middle: Tensor, mean: Tensor, total: Tensor) -> Tensor:
    """Slopes ``(n, 2, 2)`` of the shifts by weighted least squares with weights ``(n, m)``, pulled towards 0."""
    squares = say @ (here[:, :, None] * here[:, None, :]).flatten(1)
    products = say @ (here[:, :, None] * shift[:, None, :]).flatten(1)
    total = total[..., None]
    spread = squares.unflatten(1, (2, 2)) - total * middle[:, :, None] * middle[:, None, :]
    common = products.unflatten(1, (2, 2)) - total * middle[:, :, None] * mean[:, None, :]
    pull = STIFFNESS * REACH**2
    a, b, d = spread[:, 0, 0] + pull, spread[:, 0, 1], spread[:, 1, 1] + pull
    inverse = torch.stack([torch.stack([d, -b], dim=1), torch.stack([-b, a], dim=1)], dim=1)
    slopes: Tensor = inverse @ common / (a * d - b * b)[:, None, None]
    return slopes


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
    """Score maps of two (batches of) images that heed the matches around a point; votes are cast once."""

    def __init__(self, scores: ScoreMaps, source: Features, target: Features) -> None:
        self.scores, self.sizes = scores, (source.map_size, target.map_size)
        heat = (source.temperature * target.temperature).to(torch.float32)
        self.votes = [
            cast_votes(coarse_units(first), coarse_units(second), warmth)
            for first, second, warmth in zip(source.maps, target.maps, heat, strict=True)
        ]

    def __call__(self, points: Tensor) -> Tensor:
        """Points ``(B, N, 2)`` in cells of the sources -> scores ``(B, N, h, w)``."""
        lowered = [penalty(each, self.sizes[1]) for each in self.expect(points)]
        return self.scores(points) + torch.stack(lowered)

    def expect(self, points: Tensor) -> list[Expected]:
        """Where points ``(B, N, 2)`` in cells of the sources should lie."""
        return [expect(*each) for each in zip(self.votes, shares_of(points, self.sizes[0]), strict=True)]
