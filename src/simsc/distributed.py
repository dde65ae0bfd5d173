"""One process or many: started by ``torchrun``, nothing else to change.

A run computes the same on one process and on many: BatchNorm too is over the images of all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

from simsc.devices import pick_device
from simsc.errors import ConfigError, SimscError

Item = TypeVar("Item")


class PeerLostError(SimscError):
    """Another process of the group is gone."""


@contextmanager
def process_group(device: str = "auto", timeout_minutes: float = 30) -> Iterator[None]:
    """Join the group that ``torchrun`` announced through the environment, if any, and leave it at the end.

    Processes talk by what suits ``device`` (a name of :func:`local_device`): NCCL between GPUs, else Gloo.
    """
    if _announced_size() == 1 or dist.is_initialized():
        yield
        return
    place = local_device(device)
    if place.type == "cuda":
        torch.cuda.set_device(place)  # what does not name its GPU, NCCL above all, uses this one
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=timedelta(minutes=timeout_minutes))
    try:
        yield
    except RuntimeError as error:
        if not _is_lost_peer(error):
            raise
        raise PeerLostError(
            f"process {rank()}: another process of this run has ended, so this one stops too; see the other's message, "
            "then give the same command with --resume to continue"
        ) from error
    finally:
        dist.destroy_process_group()


def _is_lost_peer(error: RuntimeError) -> bool:
    """Whether a collective operation failed because of the other side."""
    signs = ("gloo", "nccl", "connection closed by peer", "connection reset", "connection refused", "timed out waiting")
    return isinstance(error, dist.DistError) or any(sign in str(error).lower() for sign in signs)


def rank() -> int:
    """Index of this process, 0 when alone."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this process writes files and shows progress."""
    return rank() == 0


def my_share(items: Sequence[Item]) -> Sequence[Item]:
    """This process's contiguous part of ``items``; parts differ in length by at most one."""
    return all_shares(items)[rank()]


def all_shares(items: Sequence[Item]) -> list[Sequence[Item]]:
    """The part of ``items`` of every process, see :func:`my_share`."""
    count = world_size()
    return [items[len(items) * index // count : len(items) * (index + 1) // count] for index in range(count)]


def sum_over_processes(tensor: Tensor) -> Tensor:
    """Sum of a tensor over all processes, on the CPU."""
    if world_size() > 1:
        tensor = tensor.to("cuda" if dist.get_backend() == "nccl" else "cpu", copy=True)
        dist.all_reduce(tensor)
    return tensor.cpu()


def gather_lists(items: list[Any]) -> list[Any]:
    """All processes' lists, one after the other, on every process. Only for this project's own objects."""
    if world_size() == 1:
        return items
    parts: list[list[Any] | None] = [None] * world_size()
    dist.all_gather_object(parts, items)
    return [item for part in parts if part for item in part]


def any_process(flag: bool) -> bool:
    """Whether the flag is set on any process, so that all take the same branch."""
    if world_size() == 1:
        return flag
    return bool(sum_over_processes(torch.tensor(float(flag))) > 0)


def main_says(flag: bool) -> bool:
    """The main process's flag, on every process."""
    return any_process(flag and is_main())


def barrier() -> None:
    """Wait for all processes."""
    if world_size() > 1:
        dist.barrier()


def local_device(name: str = "auto") -> torch.device:
    """The device of this process.

    ``auto`` takes CUDA, then Apple's if this process is alone, then the CPU. Of several GPUs each process of a machine
    has its own, unless one is named, as ``cuda:1``.
    """
    if name == "auto":
        alone = _announced_size() == 1 and world_size() == 1
        name = "cuda" if torch.cuda.is_available() else "auto" if alone else "cpu"
    if name != "cuda" or not torch.cuda.is_available():
        return pick_device(name)
    mine, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if mine >= there:
        raise ConfigError(
            f"process {mine + 1} of this machine has no GPU, for there are {there}; start at most {there} processes, "
            "or give --device cpu"
        )
    return torch.device("cuda", mine)


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
        output: Tensor = centred * scale[:, None, None] + self.bias[:, None, None]
        return output.to(input.dtype)

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


def _announced_size() -> int:
    """Number of processes that were started together, whether or not they have met yet."""
    return int(os.environ.get("WORLD_SIZE", "1"))
