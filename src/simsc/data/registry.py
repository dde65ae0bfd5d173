"""Data sets by name: :func:`load_pairs` finds the folder, picks the reader and checks the split."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from simsc.data.catalog import DATASETS, DatasetInfo, dataset_info
from simsc.data.records import Pair
from simsc.errors import ConfigError, DataError, unknown_name
from simsc.files import cache_folder, shared_folder

__all__ = ["DATASETS", "DatasetInfo", "data_fingerprint", "dataset_info", "find_root", "load_pairs"]

Reader = Callable[[Path, str], list[Pair]]


def load_pairs(name: str, root: Path | str | None = None, split: str = "test") -> list[Pair]:
    """All annotated pairs of one split of a data set.

    Args:
        name: one of ``DATASETS``.
        root: the data set's own folder or the folder that holds it (for ``coco`` and ``pairs``: the file);
            ``None`` looks where ``simsc data download`` puts it, then in the shared folder.
        split: one of the data set's ``splits``.
    """
    info = dataset_info(name)
    if split not in info.splits:
        raise ConfigError(unknown_name(f"split of {name}", split, info.splits))
    if name == "scenes":
        found: list[Pair] = import_module("simsc.data.scenes").load_pairs(split)
        return found
    reader: Reader = import_module(f"simsc.data.{name}").read_pairs
    pairs = reader(find_root(info, root), split)
    if not pairs:
        raise DataError(f"{name}: the split '{split}' has no pairs")
    return pairs


def find_root(info: DatasetInfo, root: Path | str | None = None) -> Path:
    """The folder of a data set; a sentence that says where it was looked for, if there is none."""
    candidates = _candidates(info, root)
    for candidate in candidates:
        if any((candidate / marker).exists() for marker in info.markers):
            return candidate
    looked = ", ".join(dict.fromkeys(str(candidate) for candidate in candidates))
    hint = (
        f"run `simsc data download {info.name}` or name its folder with --root"
        if info.sources
        else "name it with --root"
    )
    raise DataError(f"{info.title} is not there: looked for {' or '.join(info.markers)} in {looked}; {hint}")


def data_fingerprint(pairs: Sequence[Pair]) -> str:
    """Stable hash of a list of pairs (names, image keys, points), 16 hexadecimal digits.

    Two runs with the same fingerprint saw the same annotations in the same order.
    """
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(f"{pair.name}\n{pair.source.key}\n{pair.target.key}\n".encode())
        for points in (pair.source_points, pair.target_points):
            # Rounded, so that the last bits of a platform's arithmetic do not matter.
            digest.update(" ".join(f"{value + 0.0:.3f}" for value in points.ravel()).encode() + b"\n")
    return digest.hexdigest()[:16]


def _candidates(info: DatasetInfo, root: Path | str | None) -> list[Path]:
    if root is None:
        parents = [cache_folder() / "data", shared_folder() / "data"]
        return [
            parent / folder / inner
            for parent in parents
            for folder in info.folders
            for inner in ("", *_inner(info))
        ]
    root = Path(root).expanduser()
    below = [root / folder / inner for folder in info.folders for inner in ("", *_inner(info))]
    return [root, *(root / inner for inner in _inner(info)), *below, root.parent]


def _inner(info: DatasetInfo) -> tuple[str, ...]:
    """Archives with a top folder of their own: ``spair-71k/SPair-71k``."""
    return tuple(folder for folder in info.folders if folder != folder.lower())
