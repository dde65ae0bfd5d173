"""Work spread over processes of this machine: a pool does it; there is no queue, scheduler or retry of our own."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import nn

from simsc.errors import SimscError

Item = TypeVar("Item")
Report = TypeVar("Report")
MakeWorker = Callable[[int], Callable[[Item], Report]]


def spread(
    make: MakeWorker[Item, Report], items: Iterable[Item], workers: int, model: nn.Module, pinned: bool = True
) -> Iterator[Report]:
    """Apply a worker to items, in this process or in several; reports come as they are ready.

    Each of several workers computes with one thread.

    Args:
        make: makes what does the work, one of so many; it, items and reports travel between processes.
        items: taken as they are needed.
        workers: processes; 1 for this one.
        model: that all of them use; on a CPU its weights lie in memory once.
        pinned: a single worker has one thread too, so that results do not depend on how many there are.
    """
    if workers > 1:
        yield from _in_processes(make, items, workers, model)
        return
    work = make(1)
    for item in items:
        with one_thread() if pinned else nullcontext():
            report = work(item)
        yield report


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_workers(device: torch.device, wanted: int | None, items: int) -> int:
    """Processes for so many items: one a core, or one for an accelerator, unless told otherwise."""
    usual = cores() if device.type == "cpu" else 1
    return max(min(wanted or usual, items), 1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _in_processes(
    make: MakeWorker[Item, Report], items: Iterable[Item], workers: int, model: nn.Module
) -> Iterator[Report]:
    if all(parameter.device.type == "cpu" for parameter in model.parameters()):
        model.share_memory()
    context = torch.multiprocessing.get_context("spawn")
    waiting = iter(items)
    try:
        with ProcessPoolExecutor(workers, context, _begin, (make, workers)) as pool:
            running: set[Future[Any]] = set()
            while True:
                running |= {pool.submit(_run, item) for item in islice(waiting, 2 * workers - len(running))}
                if not running:
                    return
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
    except BrokenProcessPool:
        raise SimscError(
            "a worker process ended before its work: stopped from outside, perhaps for want of memory (try fewer "
            'workers), or begun by a script that calls this outside of `if __name__ == "__main__":`'
        ) from None


_work: Callable[[Any], Any] | None = None


def _begin(make: MakeWorker[Any, Any], workers: int) -> None:
    global _work
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = make(workers)


def _run(item: Any) -> Any:
    assert _work is not None
    return _work(item)


def _end_with_parent() -> None:
    """A pool's processes would wait for ever for a parent that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
