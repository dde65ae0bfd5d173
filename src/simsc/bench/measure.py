"""Time and memory of competing functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import torch

Action = Callable[[], Any]


def alternate(actions: Mapping[str, Action], repeats: int) -> dict[str, float]:
    """Median seconds of each action; they take turns, so that a busy machine disturbs all of them alike.

    >>> sorted(alternate({"a": lambda: None, "b": lambda: None}, repeats=3))
    ['a', 'b']
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()  # the first call pays for what later ones reuse
    for _ in range(repeats):
        for name, action in actions.items():
            started = time.perf_counter()
            action()
            seconds[name].append(time.perf_counter() - started)
    return {name: median(values) for name, values in seconds.items()}


def extra_bytes(action: Action) -> int:
    """Highest number of bytes of tensors alive at once during ``action``, beyond those alive before it.

    Counted from every allocation and release that PyTorch's profiler records on the CPU: exact, whatever else
    the machine does, and blind to what the allocator keeps for later.
    """
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = action()
    assert profiler.profiler is not None
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    del result
    return peak
