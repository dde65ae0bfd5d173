"""NCNet: neighbourhood consensus, 4D convolutions on the score tensor (Rocco et al., NeurIPS 2018)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from simsc.errors import ConfigError
from simsc.matching.features import Features
from simsc.matching.scores import at_least_float
from simsc.models.backbone import Backbone
from simsc.models.heads.base import Head
from simsc.models.heads.conv4d import Conv4d
from simsc.models.heads.refined import RefinedScores, score_tensor, tempered

EPS = 1e-6


class NCNet(Head):
    """Score tensor -> mutual matching -> symmetric neighbourhood consensus -> mutual matching.

    Args:
        backbone: its last map is used.
        kernel: side of the 4D kernels, odd.
        channels: output channels of each layer; the last must be 1.
    """

    def __init__(self, backbone: Backbone, *, kernel: int = 3, channels: tuple[int, ...] = (10, 10, 1)) -> None:
        super().__init__(backbone)
        if kernel % 2 == 0 or kernel < 1:
            raise ConfigError(f"head 'ncnet': option kernel = {kernel} is not allowed; expected an odd number")
        if channels[-1] != 1 or min(channels) < 1:
            raise ConfigError(f"head 'ncnet': option channels = {channels} is not allowed; the last must be 1")
        pairs = zip((1, *channels), channels, strict=False)
        self.consensus = nn.ModuleList(Conv4d(inputs, outputs, kernel) for inputs, outputs in pairs)

    def refine(self, source: Features, target: Features) -> RefinedScores:
        """The consensus of all matches; scores below zero carry no vote."""
        scores = mutual_matching(F.relu(score_tensor(source.maps, target.maps)))
        refined = mutual_matching(self.symmetric_consensus(scores))
        return tempered(refined, source, target)

    def symmetric_consensus(self, scores: Tensor) -> Tensor:
        """The network applied in both directions and averaged, ``(B, h_A, w_A, h_B, w_B)`` to the same.

        Swapping the images swaps the halves of every kernel, so neither direction copies the tensor.
        """
        return (self._run(scores, swapped=False) + self._run(scores, swapped=True)) / 2

    def _run(self, scores: Tensor, swapped: bool) -> Tensor:
        values = scores[:, None]
        for layer in self.consensus:
            values = F.relu(layer(values, swapped))
        return values[:, 0]


def mutual_matching(scores: Tensor) -> Tensor:
    """Weaken matches that are not the best in both directions: scores ``(B, h_A, w_A, h_B, w_B)``, not negative.

    Each score is multiplied by its ratio to the best of its source cell and to the best of its target cell. Mutual
    nearest neighbours keep their score; the operation is homogeneous of degree one.

    >>> import torch
    >>> mutual_matching(torch.tensor([[0.8, 0.4], [0.2, 0.1]]).reshape(1, 1, 2, 1, 2)).flatten()
    tensor([0.8000, 0.2000, 0.0500, 0.0125])
    """
    scores = at_least_float(scores)
    best_of_source = scores.amax(dim=(3, 4), keepdim=True)
    best_of_target = scores.amax(dim=(1, 2), keepdim=True)
    return scores * (scores / best_of_source.clamp(min=EPS)) * (scores / best_of_target.clamp(min=EPS))
