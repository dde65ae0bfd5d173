"""Files on disk: atomic writes, checksums, and the cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Where downloads and caches live: ``SIMSC_HOME``, or the platform's cache folder."""
    if home := os.environ.get("SIMSC_HOME"):
        return Path(home).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("simsc", appauthor=False)


def shared_folder() -> Path:
    """Folder with real data sets and weights for development: ``SIMSC_SHARED``, or ``../shared``."""
    return Path(os.environ.get("SIMSC_SHARED", "../shared")).expanduser()


@contextmanager
def atomic_path(path: str | Path, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that replaces it only if the block succeeds.

    A reader, or a process killed half-way, never sees a partly written file. ``durable`` also waits until the file
    is on the disk, so that it survives a power cut; caches, which can be made again, do without.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _new_file(path)
    try:
        yield temporary
        if durable:
            _flush_to_disk(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` atomically as UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` atomically as indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def sha256(path: str | Path) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _new_file(path: Path) -> Path:
    """An empty file beside ``path`` that nobody else has, with the permissions that the system gives any new file.

    ``tempfile`` would make it private, and the umask that says what is usual can only be read by setting it, which
    files that other threads make at that moment would suffer from.
    """
    while True:
        temporary = path.with_name(f".{path.stem}.{secrets.token_hex(6)}{path.suffix}")
        try:
            temporary.touch(exist_ok=False)
        except FileExistsError:
            continue
        return temporary


def _flush_to_disk(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
