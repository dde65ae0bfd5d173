"""Objects and pairs of a data set by its name: finds the folder, asks the reader and checks the split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from simsc.data.catalog import DATASETS, Dataset, DatasetInfo, dataset_info
from simsc.data.locate import find_root
from simsc.data.records import Annotated, Pair
from simsc.errors import ConfigError, DataError, unknown_name

__all__ = ["DATASETS", "DatasetInfo", "data_fingerprint", "dataset_info", "find_root", "load_objects", "load_pairs"]


def load_pairs(name: str, root: Path | str | None = None, split: str = "test") -> list[Pair]:
    """All annotated pairs of one split of a data set.

    Args:
        name: one of ``DATASETS``.
        root: the data set's own folder or the folder that holds it (for ``coco`` and ``pairs``: the file);
            ``None`` looks where ``simsc data download`` puts it, then in the shared folder.
        split: one of the data set's ``splits``.
    """
    dataset = _with_split(name, split)
    pairs = dataset.pairs(find_root(dataset.info, root), split)
    if not pairs:
        raise DataError(f"{name}: the split '{split}' has no pairs")
    return pairs


def load_objects(name: str, root: Path | str | None = None, split: str = "test") -> list[Annotated]:
    """All annotated objects of one split of a data set; arguments as of :func:`load_pairs`."""
    dataset = _with_split(name, split)
    return dataset.objects(find_root(dataset.info, root), split)


def _with_split(name: str, split: str) -> Dataset:
    dataset = DATASETS[name]
    if split not in dataset.info.splits:
        raise ConfigError(unknown_name(f"split of {name}", split, dataset.info.splits))
    return dataset


def data_fingerprint(records: Sequence[Pair] | Sequence[Annotated]) -> str:
    """Stable hash of a list of pairs or objects (names, image keys, points), 16 hexadecimal digits.

    Two runs with the same fingerprint saw the same annotations in the same order.
    """
    digest = hashlib.sha256()
    for record in records:
        for line in _lines(record):
            digest.update(line.encode() + b"\n")
    return digest.hexdigest()[:16]


def _lines(record: Pair | Annotated) -> Iterable[str]:
    """What a record is, rounded so that the last bits of a platform's arithmetic do not matter."""
    if isinstance(record, Pair):
        yield from (record.name, record.source.key, record.target.key)
        parts = [record.source_points, record.target_points]
    else:
        yield from (record.name, record.image.key)
        parts = [record.points[record.present]]
    for points in parts:
        yield " ".join(f"{value + 0.0:.3f}" for value in points.ravel())
