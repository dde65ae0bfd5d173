"""Fetches the official archives and pair lists of a data set, unpacks them and counts what arrived."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simsc.data.archives import extract
from simsc.data.catalog import Source, dataset_info
from simsc.data.locate import default_folder
from simsc.downloads import download
from simsc.errors import DataError, DownloadError
from simsc.files import sha256, write_text
from simsc.reading import read_text

Say = Callable[[str], None]


@dataclass(frozen=True)
class Fetched:
    """A downloaded file: its digest, and whether that digest was known before."""

    url: str
    sha256: str
    verified: bool
    files: int


def download_dataset(
    name: str, root: Path | str | None = None, *, keep_archives: bool = False, say: Say = print
) -> list[Fetched]:
    """Download and unpack a data set into ``root`` (default: the cache); continues where it was interrupted.

    Args:
        name: one of ``DATASETS``.
        root: folder to unpack into.
        keep_archives: keep the archives after they are unpacked.
        say: receives the sentences for the user.
    """
    info = dataset_info(name)
    if not info.sources:
        raise DataError(f"{info.title} has no direct download: {info.by_hand}")
    folder = default_folder(info) if root is None else Path(root).expanduser()
    return [_fetch(source, folder, keep_archives, say) for source in info.sources]


def _fetch(source: Source, folder: Path, keep_archives: bool, say: Say) -> Fetched:
    path = folder / source.file
    note = folder / f".{source.file}.sha256"  # remembers what was unpacked after the archive is gone
    if (known := _noted(note)) is not None and not path.is_file():
        say(f"{source.file}: unpacked before, kept")
        return Fetched(source.url, known[0], source.sha256 is not None, known[1])
    say(f"{source.file}: from {source.url}")
    try:
        download(source.url, path, sha256=source.sha256)
    except DownloadError as error:
        raise DownloadError(_by_hand(source, path, str(error))) from None
    fetched = _unpack(source, path, folder, say)
    if source.is_archive and not keep_archives:
        write_text(note, f"{fetched.sha256} {fetched.files}\n")
        path.unlink()
    return fetched


def _noted(note: Path) -> tuple[str, int] | None:
    """Digest and number of files of an archive that was unpacked before; a damaged note counts as none."""
    try:
        found = re.fullmatch(r"([0-9a-f]{64}) ([0-9]{1,9})\s*", read_text(note, limit=4096))
    except DataError:  # absent, or not a text
        return None
    return (found[1], int(found[2])) if found else None


def _unpack(source: Source, path: Path, folder: Path, say: Say) -> Fetched:
    digest = sha256(path)
    if source.sha256 is None:
        say(f"{source.file}: no SHA-256 is recorded for this file; the computed one is {digest}")
    files = extract(path, folder) if source.is_archive else 1
    say(f"{source.file}: {files:,} files in {folder}")
    return Fetched(source.url, digest, source.sha256 is not None, files)


def _by_hand(source: Source, path: Path, reason: str) -> str:
    """Sources of this field disappear often: say what to get and where to put it."""
    advice = f"; if the address is gone, {source.missing}" if source.missing else ""
    return f"{reason}{advice}; then run the same command again, which unpacks {path.name}"
