"""Errors meant for the user: one sentence that says what was wrong, where, and what is allowed."""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable

_LONGEST = 1200  # characters of a message


class SimscError(Exception):
    """Base of every error whose message is written for the user; the command line prints it without a trace.

    A message may quote what a file holds, which may be long or have lines: its middle is left out then, and it is one
    line.
    """

    def __str__(self) -> str:
        return _short(" ".join(super().__str__().split("\n")), _LONGEST)


class DataError(SimscError):
    """A data set, annotation or image that cannot be used; names the file and the field."""


class WeightsError(SimscError):
    """Weights that are missing, damaged, or do not fit the network."""


class DownloadError(SimscError):
    """An address that cannot be reached, or a file that arrived different from what was expected."""


class ConfigError(SimscError):
    """A configuration key or value that is not allowed."""


def unknown_name(what: str, name: str, allowed: Iterable[str]) -> str:
    """Sentence for a misspelt name: the nearest valid one first, then all that is allowed.

    >>> unknown_name("localizer", "agrmax", ["argmax", "soft-argmax"])
    "unknown localizer 'agrmax'; did you mean 'argmax'? Allowed: argmax, soft-argmax"
    """
    options = list(allowed)
    near = difflib.get_close_matches(name, options, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"unknown {what} '{name}'; {hint}Allowed: {', '.join(options)}"


_SYSTEM_ERRORS = {
    errno.ENOSPC: "there is no space left on the disk",
    errno.EDQUOT: "your share of the disk is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "there is no permission for that",
    errno.EPERM: "there is no permission for that",
    errno.EISDIR: "is a folder, where a file is needed",
    errno.ENOTDIR: "a part of this path is a file, where a folder is needed",
    errno.EEXIST: "exists already and is not a folder",
    errno.ENOTEMPTY: "is a folder that is not empty",
    errno.ENAMETOOLONG: "the name is too long for the file system",
    errno.ENOENT: "no such file or folder",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
    errno.EFBIG: "the file would become larger than allowed",
    errno.EIO: "the disk reports an error",
    errno.ELOOP: "its links lead in a circle",
    errno.ENOMEM: "there is not enough memory",
    errno.EADDRINUSE: "the address is in use by another program; choose another --port",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
}
_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory", "bad allocation", "std::bad_alloc")


def explain(error: BaseException) -> str | None:
    """One sentence for what the operating system refused: disk, paths, permissions, memory; None for anything else.

    The command line ends with it; a library's caller sees the error itself.

    >>> explain(OSError(errno.ENOSPC, "No space left on device", "runs/a.json"))
    'runs/a.json: there is no space left on the disk'
    """
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return "there is not enough memory for this; use smaller or fewer images, or a smaller --size or --batch-size"
    if isinstance(error, UnicodeEncodeError):
        return f"a name cannot be written as text ({error.reason})"
    if isinstance(error, OSError):
        # An atomic write fails at the temporary file or while it replaces the second name, which is the one wanted.
        place = error.filename2 or error.filename
        reason = _SYSTEM_ERRORS.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__
        return f"{_short(str(place))}: {reason}" if place is not None else reason
    # Libraries in Rust put the number into the text.
    if (found := re.search(r"\(os error (\d+)\)", str(error))) and int(found[1]) in _SYSTEM_ERRORS:
        return _SYSTEM_ERRORS[int(found[1])]
    return None


def _short(text: str, longest: int = 200) -> str:
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 4 :]}"
