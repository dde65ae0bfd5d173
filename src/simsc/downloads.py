"""Downloads with the standard library: resumed after an interruption, verified, and written atomically."""

from __future__ import annotations

import http.client
import re
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import IO, NamedTuple

from simsc.errors import DataError, DownloadError
from simsc.files import sha256 as file_sha256
from simsc.files import write_text
from simsc.reading import is_file, read_text

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
    and verified: ``path`` never holds half a file. A part is continued only if the server still has the same file
    (``<path>.part.tag`` holds what the server called it) or the checksum will tell.

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
            _fetch_with_retries(_Transfer(url, part, sha256 is not None, report), path, retries, wait)
        _tag_file(part).unlink(missing_ok=True)
        if found := _mismatch(part, sha256):
            part.unlink()  # resuming a wrong file would never make it right
            raise DownloadError(f"{url} is damaged or has changed: its SHA-256 is {found}, expected {sha256}")
        part.replace(path)
        if sha256 is None:
            write_text(recorded_file(path), f"{file_sha256(path)}  {path.name}\n")
    return path


def recorded_file(path: Path) -> Path:
    """Where the SHA-256 of a download that nobody publishes one for is kept, in the form of ``sha256sum``."""
    return path.with_name(f"{path.name}.sha256")


def recorded_sha256(path: Path) -> str | None:
    """The digest that a file had when it was downloaded, or None where none was kept."""
    file = recorded_file(path)
    digest = read_text(file, limit=4096).split(" ")[0] if is_file(file) else ""
    return digest if re.fullmatch("[0-9a-f]{64}", digest) else None


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
            if not part.exists():
                _tag_file(part).unlink(missing_ok=True)


class _Transfer(NamedTuple):
    """What is fetched where; ``verified`` says that the finished file will be compared with a checksum."""

    url: str
    part: Path
    verified: bool
    report: Progress


def _fetch_with_retries(transfer: _Transfer, path: Path, retries: int, wait: float) -> None:
    for attempt in range(retries + 1):
        try:
            return _fetch(transfer)
        except (OSError, http.client.HTTPException) as error:
            if _is_final(error) or attempt == retries:
                raise DownloadError(
                    f"cannot download {transfer.url} ({_reason(error)}); fetch it by hand and put it at {path}"
                ) from error
            time.sleep(wait * 2**attempt)
    return None


def _fetch(transfer: _Transfer) -> None:
    """Append what is missing to the part; starts over if the server does not continue, or has another file by now."""
    url, part, verified, report = transfer
    tag = _read_tag(part)
    done = part.stat().st_size if part.exists() and (tag or verified) else 0
    # Compressed transfer would make byte ranges and sizes meaningless.
    request = urllib.request.Request(url, headers={"User-Agent": "simsc", "Accept-Encoding": "identity"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    if done and tag:
        request.add_header("If-Range", tag)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:  # nothing left to send, or a stale part: the server's size tells which
            return _finish_or_restart(transfer, error, done)
        raise
    with response:
        continues = done > 0 and _starts_at(response.headers.get("Content-Range"), done)
        if continues and tag and _tag(response.headers) not in (None, tag):
            part.unlink()  # the server does not know If-Range
            return _fetch(transfer)
        start = done if continues else 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length is not None else None
        if not continues:
            _tag_file(part).write_text(_tag(response.headers) or "", encoding="utf-8")
        with part.open("ab" if continues else "wb") as stream:
            _copy(response, stream, start, total, report)
    return None


def _finish_or_restart(transfer: _Transfer, error: urllib.error.HTTPError, done: int) -> None:
    if (error.headers.get("Content-Range") or "").endswith(f"/{done}"):
        return transfer.report(done, done)
    transfer.part.unlink()
    return _fetch(transfer)


def _tag(headers: Message) -> str | None:
    """What the server calls this version of a file: its strong entity tag, or when it last changed."""
    tag: str | None = headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")


def _tag_file(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _read_tag(part: Path) -> str | None:
    try:
        tag = read_text(_tag_file(part), limit=4096).strip()
    except DataError:  # absent, or damaged
        return None
    return tag if tag and tag.isascii() and tag.isprintable() and part.exists() else None


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
