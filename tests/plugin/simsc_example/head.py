"""A head: every cell's features minus the mean of its image, so that only what sets a place apart is compared."""

from dataclasses import replace

from simsc.matching.features import Features
from simsc.matching.scores import ScoreMaps, query_scorer
from simsc.models.backbone import Backbone
from simsc.models.heads.base import Head


class Contrast(Head):
    """Compares what is left of the features after ``share`` of their mean over the image is taken away."""

    def __init__(self, backbone: Backbone, *, share: float = 1.0) -> None:
        super().__init__(backbone)
        self.share = share

    def prepare(self, features: Features) -> Features:
        """What needs one image only: done once per image, however many pairs it is in."""
        maps = features.maps - self.share * features.maps.mean(dim=(2, 3), keepdim=True)
        return replace(features, maps=maps)

    def scorer(self, source: Features, target: Features) -> ScoreMaps:
        """What needs both images: a function from points ``(B, N, 2)`` in cells to score maps ``(B, N, h, w)``."""
        return query_scorer(source.maps, target.maps, source.beta, target.beta)
