"""The plain head: features are compared as they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simsc.matching.coherence import Ballot, Coherent, Votes, cast_votes, compare_all, expect_all, penalty, shares_of
from simsc.matching.features import Features
from simsc.matching.scores import QueryMode, ScoreMaps, feature_scores, query_features, query_scorer, shared_scores
from simsc.models.backbone import Backbone
from simsc.models.heads.base import Asked, Head


class Plain(Head):
    """No more than the similarity of features over the temperatures (Eq. 2 and Eq. 5 of the paper).

    Args:
        backbone: its last map is used.
        normalize, query: see :func:`simsc.matching.scores.query_scores`.
    """

    compares_features = True

    def __init__(
        self, backbone: Backbone, *, normalize: bool = True, query: QueryMode = "normalize-then-sample"
    ) -> None:
        super().__init__(backbone)
        self.normalize, self.query = normalize, query

    def scorer(self, source: Features, target: Features) -> ScoreMaps:
        """The features' norms are computed once."""
        return self._scorer(source, target, compare_all(source, target) if self.coherent else None)

    def scorers(self, first: Features, second: Features) -> tuple[ScoreMaps, ScoreMaps]:
        """The coarse cells of both images are compared once."""
        ballot = compare_all(first, second) if self.coherent else None
        turned = None if ballot is None else ballot.turned()
        return self._scorer(first, second, ballot), self._scorer(second, first, turned)

    def _scorer(self, source: Features, target: Features, ballot: Ballot | None) -> ScoreMaps:
        scores = query_scorer(
            source.maps, target.maps, source.beta, target.beta, normalize=self.normalize, query=self.query
        )
        return scores if ballot is None else Coherent(scores, ballot, (source.map_size, target.map_size))

    def score_pairs(self, images: Features, source: Tensor, target: Tensor, cells: Tensor) -> Tensor:
        """What belongs to an image is computed once, whichever pairs it is in."""
        return shared_scores(
            images.maps, source, target, cells, images.beta, normalize=self.normalize, query=self.query
        )

    def read(self, source: Features, cells: Sequence[Tensor]) -> list[Asked]:
        """The features of all points, read from the map at once."""
        points = torch.cat([*cells])[None]
        found = query_features(source.maps, points, source.beta, self.normalize, self.query)[0]
        parts = torch.split(found, [len(each) for each in cells])
        return [Asked(source, each, part) for each, part in zip(cells, parts, strict=True)]

    def score(self, asked: Sequence[Asked], target: Features) -> Tensor:
        """All queries in one product."""
        queries = torch.cat([each.features for each in asked if each.features is not None])
        scores = feature_scores(queries[None], target.maps, target.beta, normalize=self.normalize)
        return scores + self._lowered(asked, target) if self.coherent else scores

    def _lowered(self, asked: Sequence[Asked], target: Features) -> Tensor:
        """What coherence adds ``(Q, h, w)``."""
        votes = [each.votes or _votes(each.source, target) for each in asked]
        shares = [shares_of(each.cells, each.source.map_size) for each in asked]
        return penalty(expect_all(votes, shares), target.map_size)


def _votes(source: Features, target: Features) -> Votes:
    """How one image votes over another."""
    return Votes(*(part[0] for part in cast_votes(compare_all(source, target))))
