"""NCNet: neighbourhood consensus, 4D convolutions on the score tensor (Rocco et al., NeurIPS 2018).

A 4D convolution is made of 2D convolutions over batched slices. For an offset (i, j) of the kernel in the first image
it is a 2D convolution over the second image. The k row offsets i are stacked as input channels and the k column offsets
j as output channels of *one* 2D convolution over all slices; its outputs are then shifted by j and added. So the
arithmetic happens in one large call, and the stacks are only k times as large as the tensors. Beyond a limit, rows of
the first image are worked off in groups.
"""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from simsc.errors import ConfigError
from simsc.matching.features import Features, at_least_float
from simsc.models.backbone import Backbone
from simsc.models.heads.base import Head, ScoreTensor, score_tensor, tempered

EPS = 1e-6
STACK_LIMIT = 64 * 2**20
"""Numbers in the stacks that are worked off at once (256 MB in float32)."""


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

    def scorer(self, source: Features, target: Features) -> ScoreTensor:
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

    >>> mutual_matching(torch.tensor([[0.8, 0.4], [0.2, 0.1]]).reshape(1, 1, 2, 1, 2)).flatten()
    tensor([0.8000, 0.2000, 0.0500, 0.0125])
    """
    scores = at_least_float(scores)
    best_of_source = scores.amax(dim=(3, 4), keepdim=True)
    best_of_target = scores.amax(dim=(1, 2), keepdim=True)
    return scores * (scores / best_of_source.clamp(min=EPS)) * (scores / best_of_target.clamp(min=EPS))


def conv4d(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, limit: int = STACK_LIMIT) -> Tensor:
    """4D cross-correlation with zero padding that keeps the size.

    Args:
        inputs: ``(B, C, h_A, w_A, h_B, w_B)``.
        weight: ``(O, C, k, k, k, k)``, k odd.
        bias: ``(O,)``.
        limit: bound on the numbers held in stacks; beyond it rows of the first image are done in groups,
            and recomputed in the backward pass instead of being kept.

    Returns:
        ``(B, O, h_A, w_A, h_B, w_B)``.
    """
    half, rows = weight.shape[2] // 2, inputs.shape[2]
    slices = inputs.movedim(1, 3)
    padded = F.pad(slices.flatten(2), (0, 0, half, half)).unflatten(2, slices.shape[2:])
    group = rows_per_group(inputs.shape, weight.shape, limit)
    if group >= rows:
        outputs = _conv_rows(padded, weight)
    else:
        parts = [padded[:, start : min(start + group, rows) + 2 * half] for start in range(0, rows, group)]
        outputs = torch.cat([_recomputed(part, weight) for part in parts], dim=1)
    outputs = outputs.movedim(3, 1)
    return outputs if bias is None else outputs + bias.view(1, -1, 1, 1, 1, 1)


def rows_per_group(inputs: torch.Size, weight: torch.Size, limit: int) -> int:
    """How many rows of the first image fit into the limit, at least one.

    >>> rows_per_group(torch.Size([1, 10, 16, 16, 16, 16]), torch.Size([10, 10, 3, 3, 3, 3]), limit=10**6)
    4
    """
    slices_per_row = math.prod(inputs) // (inputs[1] * inputs[2])
    return max(1, limit // (slices_per_row * weight[2] * (weight[0] + weight[1])))


class Conv4d(nn.Module):
    """4D convolution layer ``(B, C, h_A, w_A, h_B, w_B)`` -> ``(B, O, ...)``; starts as a mean over channels.

    The centre of every kernel starts at 1 / C, with a little noise all over it: a stack of these layers first hands
    on its input, so that no ReLU starts dead.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, *[kernel] * 4))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.weight, std=0.1 / math.sqrt(inputs * kernel**4))
        centre = kernel // 2
        with torch.no_grad():
            self.weight[:, :, centre, centre, centre, centre] += 1 / inputs

    def forward(self, inputs: Tensor, swapped: bool = False) -> Tensor:
        """Convolve; ``swapped`` as if the two images had changed places before and change back after."""
        weight = self.weight.permute(0, 1, 4, 5, 2, 3) if swapped else self.weight
        return conv4d(inputs, weight, self.bias)


def _recomputed(padded: Tensor, weight: Tensor) -> Tensor:
    result: Tensor = checkpoint(_conv_rows, padded, weight, use_reentrant=False)
    return result


def _conv_rows(padded: Tensor, weight: Tensor) -> Tensor:
    """``(B, rows + k - 1, w_A, C, h_B, w_B)`` -> ``(B, rows, w_A, O, h_B, w_B)``."""
    kernel = weight.shape[2]
    rows = padded.shape[1] - kernel + 1
    stacked = torch.cat([padded[:, i : i + rows] for i in range(kernel)], dim=3)
    flat_weight = weight.permute(3, 0, 2, 1, 4, 5).flatten(2, 3).flatten(0, 1)
    outputs = F.conv2d(stacked.flatten(0, 2), flat_weight, padding=kernel // 2)
    by_column = outputs.unflatten(1, (kernel, -1)).unflatten(0, stacked.shape[:3]).unbind(dim=3)
    steps = range(-(kernel // 2), kernel // 2 + 1)
    # On a map narrower than the kernel the outer offsets see nothing but padding.
    shifted = [
        _shift_columns(part, step) for step, part in zip(steps, by_column, strict=True) if abs(step) < part.shape[2]
    ]
    return functools.reduce(torch.add, shifted)


def _shift_columns(slices: Tensor, step: int) -> Tensor:
    """``(B, rows, w_A, O, h_B, w_B)`` with column q taken from column q + step; zeros come in."""
    return F.pad(slices.flatten(3), (0, 0, -step, step)).unflatten(3, slices.shape[3:]) if step else slices
