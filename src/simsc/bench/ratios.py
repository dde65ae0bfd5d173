"""A measured ratio and what it should be: time and memory of competing functions, and where they were measured."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from simsc._version import __version__

Action = Callable[[], Any]


@dataclass(frozen=True)
class Ratio:
    """One line of the report.

    Attributes:
        name: what is compared with what.
        value: what was measured.
        target: the bound.
        at_least: whether the value must be at least the target, or at most.
        unit: ``x`` for a ratio, or a unit such as ``MB``.
        detail: the two measurements behind it.
    """

    name: str
    value: float
    target: float
    at_least: bool
    unit: str = "x"
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether the target is met.

        >>> Ratio("cached step, faster", 12.0, 10.0, at_least=True).passed
        True
        """
        return self.value >= self.target if self.at_least else self.value <= self.target

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {**vars(self), "passed": self.passed}


def alternate(
    actions: Mapping[str, Action], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each action; they take turns, so that a busy machine disturbs all of them alike.

    >>> sorted(alternate({"a": lambda: None, "b": lambda: None}, repeats=3))
    ['a', 'b']
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()  # the first call pays for what later ones reuse
    for _ in range(repeats):
        for name, action in actions.items():
            started = clock()
            action()
            seconds[name].append(clock() - started)
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


def environment() -> dict[str, str | int]:
    """Processor, cores, threads and versions."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "simsc": __version__,
    }


def describe(facts: dict[str, str | int]) -> str:
    """The environment as one line.

    >>> versions = {"python": "3.12", "torch": "2.13.0", "simsc": "0.1"}
    >>> describe({"processor": "x86_64", "cores": 2, "threads": 1, "system": "Linux", **versions})
    'x86_64, 2 cores, 1 thread, Linux, Python 3.12, PyTorch 2.13.0, simsc 0.1'
    """
    threads = f"{facts['threads']} thread{'' if facts['threads'] == 1 else 's'}"
    return (
        f"{facts['processor']}, {facts['cores']} cores, {threads}, {facts['system']}, Python {facts['python']}, "
        f"PyTorch {facts['torch']}, simsc {facts['simsc']}"
    )


def _processor() -> str:
    """The processor's name where the system tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
