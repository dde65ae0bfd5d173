"""Where a data set lies: its own folder, a folder that holds several, the cache, or the shared folder."""

from __future__ import annotations

from pathlib import Path

from simsc.data.catalog import DatasetInfo
from simsc.errors import DataError
from simsc.files import cache_folder, shared_folder


def find_root(info: DatasetInfo, root: Path | str | None = None) -> Path:
    """The folder of a data set; a sentence that says where it was looked for, if there is none.

    Args:
        info: the data set; one of its ``markers`` exists in its folder.
        root: the data set's folder or its parent; ``None`` means the cache, then the shared folder.
    """
    if info.drawn:
        return Path()
    if info.own:
        return _own_file(info, root)
    candidates = _candidates(info, root)
    for candidate in candidates:
        if any((candidate / marker).exists() for marker in info.markers):
            return candidate
    looked = [root] if root is not None else [folder / "data" for folder in (cache_folder(), shared_folder())]
    raise DataError(
        f"{info.title} is not there: looked for {' or '.join(info.markers)} in "
        f"{' and '.join(str(place) for place in looked)}; "
        f"run `simsc data download {info.name}` or name its folder with --root"
    )


def _own_file(info: DatasetInfo, root: Path | str | None) -> Path:
    if root is None:
        raise DataError(f"{info.title}: {info.by_hand or 'name it with --root'}")
    if not Path(root).expanduser().exists():
        raise DataError(f"{root}: no such file or folder")
    return Path(root).expanduser()


def default_folder(info: DatasetInfo) -> Path:
    """Where ``simsc data download`` puts a data set."""
    return cache_folder() / "data" / info.folders[0]


def _candidates(info: DatasetInfo, root: Path | str | None) -> list[Path]:
    if root is None:
        parents = [cache_folder() / "data", shared_folder() / "data"]
        return [place for parent in parents for place in _below(parent, info)]
    root = Path(root).expanduser()
    # The folder the markers lie in, given one level too deep, is forgiven.
    return [root, *_below(root, info), root.parent]


def _below(parent: Path, info: DatasetInfo) -> list[Path]:
    """``parent/<folder>`` and ``parent/<folder>/<folder>``: archives often have a top folder of their own."""
    outer = [parent / folder for folder in info.folders]
    return outer + [place / folder for place in outer for folder in info.folders]
