"""Where a benchmark ran: ratios travel, but a reader wants to know from where."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from simsc._version import __version__


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
