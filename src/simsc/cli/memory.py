"""The allocator of the command line's process."""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt
_KEPT_BYTES = 1 << 30
_MAPPED_FROM_BYTES = 32 << 20  # blocks of this size are mapped and unmapped each time; glibc refuses a larger value


def keep_freed_memory() -> bool:
    """Have glibc keep freed memory instead of handing it back after every layer; True where that was possible.

    A forward frees and asks for the same megabytes again and again. Returned to the kernel they come back as pages that
    have to be cleared first, which was 14% of a match. Only the command line does this, to its own process: a library
    leaves the allocator alone. Whoever sets ``MALLOC_...`` variables has decided already.
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES) and mallopt(_TRIM_THRESHOLD, _KEPT_BYTES))
