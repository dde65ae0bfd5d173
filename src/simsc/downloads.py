"""Downloads with the standard library: resumed after an interruption, verified, and written atomically."""

from __future__ import annotations

import http.client
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from simsc.errors import DownloadError
from simsc.files import sha256 as file_sha256

Progress = Callable[[int, int | None], None]
"""Called with the bytes on disk so far and the total (None where the server does not say)."""

_BLOCK = 1 << 18
_TIMEOUT = 30.0
_CLIENT_ERRORS = range(400, 500)


def download(
    url: str,
    path: str | Path,
    *,
    sha256: str | None = None,
    progress: Progress | bool = True,
    retries: int = 3,
    wait: float = 1.0,
) -> Path:
    """Fetch ``url`` into ``path`` and return the path; a file that is already there and intact is kept.

    The data is collected in ``<path>.part``, which a later call continues, and renamed once it is complete
    and verified: ``path`` never holds half a file.

    Args:
        url: http, https or file address.
        path: the file to write; its folder is made.
        sha256: expected hexadecimal digits, all 64 or only the first ones; None skips the check.
        progress: True draws a bar on a terminal, False is silent, a function gets (done, total) bytes.
        retries: further attempts after a broken connection; each continues where the last one stopped.
        wait: seconds before the first further attempt, doubled for each one after.

    Raises:
        DownloadError: the address cannot be reached, or the file is not the expected one.
    """
    path = Path(path)
    if path.is_file() and _mismatch(path, sha256) is None:
        return path
    part = path.with_name(path.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with _alone(part):
        if path.is_file() and _mismatch(path, sha256) is None:
            return path  # another process fetched it while we waited
        with _Reporter(path.name, progress) as report:
            _fetch_with_retries(url, part, path, report, retries, wait)
        if found := _mismatch(part, sha256):
            part.unlink()  # resuming a wrong file would never make it right
            raise DownloadError(f"{url} is damaged or has changed: its SHA-256 is {found}, expected {sha256}")
        part.replace(path)
    return path


@contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Let one process at a time write ``part``, where the system has file locks; the others wait."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with part.open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # released when the file is closed, or the process dies
        try:
            yield
        finally:
            if part.exists() and part.stat().st_size == 0:
                part.unlink()


def _fetch_with_retries(url: str, part: Path, path: Path, report: Progress, retries: int, wait: float) -> None:
    for attempt in range(retries + 1):
        try:
            return _fetch(url, part, report)
        except (OSError, http.client.HTTPException) as error:
            if _is_final(error) or attempt == retries:
                raise DownloadError(
                    f"cannot download {url} ({_reason(error)}); fetch it by hand and put it at {path}"
                ) from error
            time.sleep(wait * 2**attempt)
    return None


def _fetch(url: str, part: Path, report: Progress) -> None:
    """Append what is missing to ``part``; starts over if the server does not continue."""
    done = part.stat().st_size if part.exists() else 0
    # Compressed transfer would make byte ranges and sizes meaningless.
    request = urllib.request.Request(url, headers={"User-Agent": "simsc", "Accept-Encoding": "identity"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:  # nothing left to send, or a stale part: the server's size tells which
            return _finish_or_restart(url, part, report, error, done)
        raise
    with response:
        continues = done > 0 and _starts_at(response.headers.get("Content-Range"), done)
        start = done if continues else 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length is not None else None
        with part.open("ab" if continues else "wb") as stream:
            _copy(response, stream, start, total, report)
    return None


def _finish_or_restart(url: str, part: Path, report: Progress, error: urllib.error.HTTPError, done: int) -> None:
    if (error.headers.get("Content-Range") or "").endswith(f"/{done}"):
        return report(done, done)
    part.unlink()
    return _fetch(url, part, report)


def _copy(source: IO[bytes], target: IO[bytes], done: int, total: int | None, report: Progress) -> None:
    report(done, total)
    while block := source.read(_BLOCK):
        target.write(block)
        done += len(block)
        report(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


def _starts_at(content_range: str | None, start: int) -> bool:
    return (content_range or "").startswith(f"bytes {start}-")


def _mismatch(path: Path, expected: str | None) -> str | None:
    """The file's SHA-256 if it is not the expected one, else None."""
    if expected is None:
        return None
    found = file_sha256(path)
    return None if found.startswith(expected.lower()) else found


def _is_final(error: Exception) -> bool:
    """Whether another attempt cannot help: the server refuses, or there is no network to find it in."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _CLIENT_ERRORS
    return isinstance(error, urllib.error.URLError) and isinstance(error.reason, socket.gaierror)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"no connection: {error.reason}"
    return str(error) or type(error).__name__


def _silent(_done: int, _total: int | None) -> None:
    pass


class _Reporter:
    """Turns (done, total) into a bar on the terminal, a call of the user's function, or nothing."""

    def __init__(self, name: str, progress: Progress | bool) -> None:
        self.name = name
        self.function = progress if callable(progress) else None
        # A bar in a log file is only noise.
        self.draws = progress is True and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if not self.draws:
            return self.function or _silent
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=Console(stderr=True))
        self.bar.start()
        task = self.bar.add_task(self.name, total=None)
        return lambda done, total: self.bar.update(task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        if self.draws:
            self.bar.stop()
