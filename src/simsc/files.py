"""Files on disk: atomic writes, locks, checksums, and the cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar

from simsc.errors import ConfigError

try:
    import fcntl
except ImportError:  # Windows: no locks, and nothing is swept
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{12}(\.[^.]*)?")
_swept: set[Path] = set()


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

    A reader, or a process killed half-way, never sees a partly written file; what a killed process left is removed
    at the first write into the folder. ``durable`` also waits until the file is on the disk, so that it survives a
    power cut; caches, which can be made again, do without.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent)
    temporary, mark = _new_file(path)
    try:
        yield temporary
        if durable:
            _flush_to_disk(temporary)
        temporary.replace(path)
    finally:
        os.close(mark)
        temporary.unlink(missing_ok=True)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """A new folder inside of another one, removed at the end, or swept later if this process is killed."""
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    folder = parent / f".folder.{secrets.token_hex(6)}"
    folder.mkdir()
    try:
        with _marked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove the temporary files and folders that killed processes left; looks once per folder and process."""
    folder = folder.absolute()
    if folder in _swept or fcntl is None:
        return
    _swept.add(folder)
    for entry in folder.iterdir():
        if _TEMPORARY.fullmatch(entry.name):
            with suppress(OSError), _marked(entry) as unused:
                if unused and entry.is_dir():
                    shutil.rmtree(entry)
                elif unused:
                    entry.unlink()


class Lock:
    """Keeps an output to one process: a second one is refused with the owner's process number.

    The lock is a file beside the output (inside of a folder), and it is the system's: it ends with its process,
    however that ends. Within a process it may be taken again. Where there are no locks, nothing is refused.

    Args:
        path: the output; its folder is made, so that what cannot be written is refused at once.
        folder: whether the output is a folder.
    """

    _held: ClassVar[dict[Path, tuple[IO[str], int]]] = {}

    def __init__(self, path: str | Path, folder: bool = False) -> None:
        self.path = Path(path)
        name = ".in-use" if folder else f".{self.path.name}.in-use"
        self.file = (self.path / name if folder else self.path.with_name(name)).absolute()
        if not folder and self.path.is_dir():
            raise ConfigError(f"{self.path} is a folder; give the name of a file to write")

    def __enter__(self) -> Lock:
        stream, count = self._held.get(self.file) or (self._take(), 0)
        self._held[self.file] = stream, count + 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        stream, count = self._held.pop(self.file)
        if count > 1:
            self._held[self.file] = stream, count - 1
            return
        with suppress(OSError):
            self.file.unlink()
        stream.close()

    def _take(self) -> IO[str]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        while True:
            stream = self.file.open("a+", encoding="utf-8")
            if not _try_lock(stream):
                stream.seek(0)
                owner = stream.read(20).strip() or "unknown"
                stream.close()
                raise ConfigError(f"{self.path} is in use by process {owner}; wait for it, or choose another output")
            if not _is_at(stream.fileno(), self.file):  # its owner removed it between our opening and locking it
                stream.close()
                continue
            try:
                stream.truncate(0)
                os.write(stream.fileno(), f"{os.getpid()}\n".encode())  # unbuffered: on a full disk it fails here
            except OSError:
                self.file.unlink(missing_ok=True)
                stream.close()
                raise
            return stream


@contextmanager
def outputs(*paths: str | Path | None) -> Iterator[None]:
    """Hold the locks of all output files of a command while it runs; None stands for one that is not wanted."""
    with ExitStack() as stack:
        for path in paths:
            if path is not None:
                stack.enter_context(Lock(path))
        yield


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


def _new_file(path: Path) -> tuple[Path, int]:
    """An empty file beside ``path`` that nobody else has, with the permissions that the system gives any new file.

    ``tempfile`` would make it private, and the umask that says what is usual can only be read by setting it, which
    files that other threads make at that moment would suffer from. The second value is an open handle whose lock says
    to a sweeping process that somebody is at work.
    """
    while True:
        temporary = path.with_name(f".{path.stem}.{secrets.token_hex(6)}{path.suffix}")
        try:
            mark = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        except FileExistsError:
            continue
        if _try_lock(mark) and _is_at(mark, temporary):
            return temporary, mark
        os.close(mark)  # a sweeping process was between our making and locking it
        temporary.unlink(missing_ok=True)


@contextmanager
def _marked(path: Path) -> Iterator[bool]:
    """Hold the lock of a file or folder; whether nobody else had it."""
    if fcntl is None:
        yield True
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        yield _try_lock(handle)
    finally:
        os.close(handle)


def _flush_to_disk(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _try_lock(stream: IO[Any] | int) -> bool:
    """Whether an open file could be locked; True as well where there are no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
