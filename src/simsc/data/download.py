"""Fetches the official archives and pair lists of a data set, unpacks them and counts what arrived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simsc.data.archives import extract
from simsc.data.catalog import Source, dataset_info
from simsc.data.locate import default_folder
from simsc.downloads import download
from simsc.errors import DataError, DownloadError
from simsc.files import sha256

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
    if note.is_file() and not path.is_file():
        say(f"{source.file}: unpacked before, kept")
        digest, files = note.read_text(encoding="utf-8").split()
        return Fetched(source.url, digest, source.sha256 is not None, int(files))
    say(f"{source.file}: from {source.url}")
    try:
        download(source.url, path, sha256=source.sha256)
    except DownloadError as error:
        raise DownloadError(_by_hand(source, path, str(error))) from None
    fetched = _unpack(source, path, folder, say)
    if source.is_archive and not keep_archives:
        note.write_text(f"{fetched.sha256} {fetched.files}\n", encoding="utf-8")
        path.unlink()
    return fetched


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
