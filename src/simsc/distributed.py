"""One process or many: started by ``torchrun``, nothing else to change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from simsc.devices import pick_device
from simsc.errors import SimscError

Item = TypeVar("Item")


class PeerLostError(SimscError):
    """Another process of the group is gone."""


@contextmanager
def process_group(timeout_minutes: float = 30) -> Iterator[None]:
    """Join the group that ``torchrun`` announced through the environment, if any, and leave it at the end."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=timedelta(minutes=timeout_minutes))
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
        tensor = tensor.to(local_device(), copy=True)
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
    """The device of this process: ``auto`` takes CUDA, then Apple's if this process is alone, then the CPU."""
    if name == "auto" and torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return pick_device("cpu" if name == "auto" and world_size() > 1 else name)
