"""Safe extraction: nothing leaves the folder, links are refused, and a half-unpacked archive is never seen."""

from __future__ import annotations

import errno
import lzma
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from simsc.errors import DataError
from simsc.files import temporary_folder

_JUNK = ("__MACOSX", ".DS_Store", "Thumbs.db")


def extract(archive: Path, folder: Path) -> int:
    """Unpack a zip or tar archive into ``folder`` and return the number of files.

    Every path is checked before the first byte is written. The files are unpacked beside ``folder`` and moved
    in at the end, replacing files of the same name.
    """
    with temporary_folder(folder) as temporary:
        try:
            with _opened(archive) as opened:
                count = opened.extract_to(temporary)
        except OSError as error:
            if error.errno not in _DAMAGE:
                raise  # the disk is full, say: not the archive's fault
            raise _damaged(archive, error) from None
        except (
            *_FORMATS,
            EOFError,
            zlib.error,
            lzma.LZMAError,
            ArithmeticError,
            ValueError,
            LookupError,
            RuntimeError,
        ) as error:
            raise _damaged(archive, error) from None
        _refuse_conflicts(temporary, folder, archive)
        _move_into(temporary, folder)
    return count


_FORMATS = (tarfile.TarError, zipfile.BadZipFile, struct.error, NotImplementedError)
_DAMAGE = (None, errno.EINVAL, errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
"""What the system says when an archive states places that are none, or members with impossible names."""


def _damaged(archive: Path, error: Exception) -> DataError:
    return DataError(f"{archive}: the archive is damaged ({str(error)[:200]}); delete it and download again")


def safe_path(name: str, archive: Path) -> Path | None:
    """Relative path of a member; ``None`` for files that operating systems leave behind.

    >>> safe_path("set/a.jpg", Path("x.zip")).as_posix()
    'set/a.jpg'
    >>> safe_path("../a.jpg", Path("x.zip"))
    Traceback (most recent call last):
    simsc.errors.DataError: x.zip: the member '../a.jpg' would leave the folder; the archive is refused
    """
    path = PurePosixPath(name.replace("\\", "/"))
    drive = len(path.parts) > 0 and path.parts[0].endswith(":")  # C:/...
    if path.is_absolute() or drive or ".." in path.parts:
        raise DataError(f"{archive}: the member '{name}' would leave the folder; the archive is refused")
    if any(part in _JUNK or part.startswith("._") for part in path.parts):
        return None
    return Path(*path.parts)


class _Zip:
    def __init__(self, archive: Path, content: zipfile.ZipFile) -> None:
        self.archive, self.content = archive, content

    def extract_to(self, folder: Path) -> int:
        members = [info for info in self.content.infolist() if not info.is_dir()]
        if linked := [info for info in members if (info.external_attr >> 16) & 0o170000 == 0o120000]:
            raise DataError(f"{self.archive}: the member '{linked[0].filename}' is a link; the archive is refused")
        paths = [safe_path(info.filename, self.archive) for info in members]
        _check_space(sum(info.file_size for info in members), folder, self.archive)
        return sum(
            _write(self.content.open(info), folder / path)
            for info, path in zip(members, paths, strict=True)
            if path is not None
        )


class _Tar:
    def __init__(self, archive: Path, content: tarfile.TarFile) -> None:
        self.archive, self.content = archive, content

    def extract_to(self, folder: Path) -> int:
        members = [info for info in self.content.getmembers() if not info.isdir()]
        if special := [info for info in members if not info.isfile()]:
            raise DataError(
                f"{self.archive}: the member '{special[0].name}' is a link or a device; the archive is refused"
            )
        paths = [safe_path(info.name, self.archive) for info in members]
        _check_space(sum(info.size for info in members), folder, self.archive)
        count = 0
        for info, path in zip(members, paths, strict=True):
            stream = self.content.extractfile(info)
            if path is not None and stream is not None:
                count += _write(stream, folder / path)
        return count


@contextmanager
def _opened(archive: Path) -> Iterator[_Zip | _Tar]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            yield _Zip(archive, zipped)
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tarred:
            yield _Tar(archive, tarred)
    else:
        raise DataError(f"{archive}: neither a zip nor a tar archive; perhaps the server sent an error page")


def _write(stream: IO[bytes], path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    with stream, path.open("wb") as target:
        shutil.copyfileobj(stream, target, 1 << 20)
    return 1


def _check_space(needed: int, folder: Path, archive: Path) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{archive}: unpacked it needs {needed / 1e9:.1f} GB, {folder.parent} has {free / 1e9:.1f} GB free"
        )


def _refuse_conflicts(source: Path, target: Path, archive: Path) -> None:
    """Refuse a tree with a folder where the other one has a file, or the reverse, before anything is moved."""
    for entry in source.iterdir():
        place = target / entry.name
        if place.exists() and entry.is_dir() != place.is_dir():
            raise DataError(f"{archive}: '{entry.name[:80]}' is both a file and a folder; {place} is in its way")
        if entry.is_dir() and place.is_dir():
            _refuse_conflicts(entry, place, archive)


def _move_into(source: Path, target: Path) -> None:
    """Move a tree into another one, file by file where folders exist already."""
    for entry in source.iterdir():
        place = target / entry.name
        if entry.is_dir() and place.is_dir():
            _move_into(entry, place)
        else:
            entry.replace(place)
