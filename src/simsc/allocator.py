"""How much memory there is, and what glibc's allocator does with freed memory; other C libraries are left alone."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MEMORY_TABLE = Path("/proc/meminfo")
"""Where Linux says how its memory is used."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt
_KEPT_BYTES = 1 << 30
_MAPPED_FROM_BYTES = 32 << 20  # blocks of this size are mapped and unmapped each time; glibc refuses a larger value


def free_memory(table: Path = MEMORY_TABLE) -> int:
    """Bytes of memory that are available, what the system would give back among them; 4 GiB where it does not say."""
    with suppress(OSError, ValueError, IndexError, StopIteration):
        line = next(line for line in table.read_text().splitlines() if line.startswith("MemAvailable:"))
        return int(line.split()[1]) << 10
    try:  # less than there is: files that the system keeps in memory do not count as free here
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 4 << 30


def keep_freed_memory() -> bool:
    """Have it kept instead of handed back after every layer of a network; True where that was possible.

    A forward frees and asks for the same megabytes again and again. Returned to the kernel they come back as pages that
    have to be cleared first, which was 14% of a match. Only the command line does this, to its own process: a library
    leaves the allocator alone. Whoever sets ``MALLOC_...`` variables has decided already.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = _glibc("mallopt")
    return bool(mallopt and mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES) and mallopt(_TRIM_THRESHOLD, _KEPT_BYTES))


def hand_back() -> bool:
    """Hand back what lies free between pieces that are in use; True where that was possible.

    Where large pieces come and go among small ones that stay, the gaps are seldom used again, and a process that holds
    one gigabyte would take eight.
    """
    trim = _glibc("malloc_trim")
    if trim is None:
        return False
    trim(0)
    return True


def _glibc(name: str) -> Any:
    """A function of the C library; None where it is another one."""
    try:
        return getattr(ctypes.CDLL(None), name) if sys.platform.startswith("linux") else None
    except (AttributeError, OSError):
        return None
