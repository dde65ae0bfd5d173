"""Folders and files wherever they are: this machine, S3 and its like, anything that ``fsspec`` knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from simsc import reading
from simsc.errors import ConfigError, DataError
from simsc.files import atomic_path
from simsc.images import FILE_LIMIT


def need(module: str, extra: str = "bulk") -> ModuleType:
    """Import an optional package, or say which extra brings it."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"this needs the extra '{extra}': pip install 'simsc[{extra}]' ({error})") from None


@dataclass(frozen=True)
class Place:
    """A folder, or a file, on some file system.

    Attributes:
        system: a ``pyarrow.fs.FileSystem``.
        path: on it.
        scheme, options: what stands before and after the path in its address; empty for this machine's own disk.
    """

    system: Any
    path: str
    scheme: str = ""
    options: str = ""

    @staticmethod
    def at(where: str | Path) -> Place:
        """The place of a path or address: ``photos``, ``s3://bucket/photos``, ``memory://photos``."""
        text = str(where)
        fs = need("pyarrow.fs")
        if "://" not in text:
            return Place(fs.LocalFileSystem(), str(Path(text).expanduser().absolute()))
        try:
            system, path = _remote(text, fs)
        except Exception as error:  # each store has errors of its own
            raise ConfigError(f"{text}: no such store can be opened ({error})") from None
        scheme, _, rest = text.partition("://")
        return Place(system, path, f"{scheme}://", "".join(rest.partition("?")[1:]))

    def __truediv__(self, name: str) -> Place:
        """A file or folder inside; an absolute path or an address stands for itself."""
        if "://" in name or name.startswith("/"):
            return Place.at(name)
        return self._at(str(PurePosixPath(self.path) / name))

    def __str__(self) -> str:
        """A text that :meth:`at` leads back from."""
        return f"{self.scheme}{self.path}{self.options}"

    @property
    def local(self) -> bool:
        """Whether it is this machine's own disk, where files are written under another name and then renamed."""
        return not self.scheme

    @property
    def parent(self) -> Place:
        """The folder that holds it."""
        return self._at(str(PurePosixPath(self.path).parent))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name

    def info(self) -> Any:
        """What the file system says: type, size, time."""
        return self.system.get_file_info(self.path)

    def is_file(self) -> bool:
        """Whether there is a file."""
        return bool(self.info().is_file)

    def is_folder(self) -> bool:
        """Whether there is a folder."""
        return bool(self.info().type == need("pyarrow.fs").FileType.Directory)

    def read(self) -> bytes:
        """The whole file."""
        if self.local:
            return Path(self.path).read_bytes()
        with self.system.open_input_stream(self.path) as stream:
            data: bytes = stream.read()
        return data

    def write(self, data: bytes | memoryview, *, durable: bool = True) -> None:
        """Write a whole file: a reader sees all of it or none. Object stores show a file when it is closed."""
        if self.local:
            with atomic_path(self.path, durable=durable) as temporary:
                temporary.write_bytes(data)
            return
        self.system.create_dir(str(PurePosixPath(self.path).parent), recursive=True)
        with self.system.open_output_stream(self.path) as stream:
            stream.write(data)

    def files(self, *, recursive: bool = False) -> Iterator[Place]:
        """The files inside, in order of their paths; nothing if there is no such folder."""
        fs = need("pyarrow.fs")
        found = self.system.get_file_info(fs.FileSelector(self.path, recursive=recursive, allow_not_found=True))
        for path in sorted(each.path for each in found if each.is_file):
            yield self._at(path)

    def delete(self) -> None:
        """Remove a file; one that is not there is fine."""
        try:
            self.system.delete_file(self.path)
        except (FileNotFoundError, OSError):
            if self.is_file():
                raise

    def delete_folder(self) -> None:
        """Remove a folder with all that is in it; one that is not there is fine."""
        if self.is_folder():
            self.system.delete_dir(self.path)

    def _at(self, path: str) -> Place:
        return replace(self, path=path)


def _remote(text: str, fs: ModuleType) -> tuple[Any, str]:
    if text.startswith(("s3://", "gs://", "hdfs://", "file://")):
        system, path = fs.FileSystem.from_uri(text)
        return system, path
    import fsspec

    system, path = fsspec.core.url_to_fs(text)
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def read_bytes(where: Place) -> bytes:
    """A file that the user, or a manifest, named; what is wrong with it is said in one sentence."""
    if where.local:  # not a device, which would never end
        return reading.read_bytes(where.path, FILE_LIMIT)
    try:
        if (where.info().size or 0) > FILE_LIMIT:
            raise DataError(f"{where}: has more than the {FILE_LIMIT:,} bytes that are read")
        return where.read()
    except FileNotFoundError:
        raise DataError(f"{where}: no such file") from None
    except OSError as error:
        raise DataError(f"{where}: cannot be read ({error})") from None
