"""Data sets by name: :func:`load_pairs` finds the folder, picks the reader and checks the split."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from simsc.data.catalog import DATASETS, DatasetInfo, dataset_info
from simsc.data.locate import find_root
from simsc.data.records import Pair
from simsc.errors import ConfigError, DataError, unknown_name

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
        scenes: list[Pair] = import_module("simsc.scenes").load_pairs(split)
        return scenes
    reader: Reader = import_module(f"simsc.data.readers.{name}").read_pairs
    pairs = reader(find_root(info, root), split)
    if not pairs:
        raise DataError(f"{name}: the split '{split}' has no pairs")
    return pairs


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
