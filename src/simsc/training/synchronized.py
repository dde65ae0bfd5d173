"""BatchNorm over the images of all processes, so that a run computes the same on one process and on many."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce


class SynchronizedBatchNorm(nn.BatchNorm2d):
    """BatchNorm whose statistics, in training, are those of all processes together; on any device.

    PyTorch's own works on CUDA only.

    Attributes:
        shares: ``(B,)`` how much each image counts; None for 1. Images that several processes hold share their count.
    """

    shares: Tensor | None = None

    @classmethod
    def of(cls, norm: nn.BatchNorm2d) -> SynchronizedBatchNorm:
        """The same layer, synchronised; it shares the parameters and statistics of ``norm``."""
        ours = cls(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        ours._parameters, ours._buffers = norm._parameters, norm._buffers
        return ours.train(norm.training)

    def forward(self, input: Tensor) -> Tensor:
        """``(B, C, h, w)`` -> the same."""
        if not self.training:
            return super().forward(input)
        values = input.float()
        shares = values.new_ones(len(values)) if self.shares is None else self.shares.to(values)
        shares = shares[:, None, None, None]
        count = all_reduce(shares.sum() * (values.shape[2] * values.shape[3]))
        mean = all_reduce((values * shares).sum(dim=(0, 2, 3))) / count
        centred = values - mean[:, None, None]
        variance = all_reduce((centred.square() * shares).sum(dim=(0, 2, 3))) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1))
        scale = self.weight / (variance + self.eps).sqrt()
        return (centred * scale[:, None, None] + self.bias[:, None, None]).to(input.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        for kept, new in ((self.running_mean, mean), (self.running_var, variance)):
            if kept is not None and self.momentum is not None:
                kept.lerp_(new, self.momentum)


def synchronize_batchnorm(module: nn.Module) -> None:
    """Replace every BatchNorm within ``module`` by a synchronised one."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, SynchronizedBatchNorm.of(child))
        else:
            synchronize_batchnorm(child)


def share_images(module: nn.Module, shares: Tensor) -> None:
    """Tell every synchronised BatchNorm within ``module`` how much each image ``(B,)`` of the next batch counts."""
    for child in module.modules():
        if isinstance(child, SynchronizedBatchNorm):
            child.shares = shares
