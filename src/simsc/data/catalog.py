"""What is known of each data set: splits, threshold of PCK, folders, terms, sources and expected counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from simsc.errors import ConfigError, unknown_name

Threshold = Literal["img", "kps", "bbox"]


@dataclass(frozen=True)
class Source:
    """A file to download.

    Attributes:
        url: where it is.
        target: file name, or for an archive the folder it is unpacked to, below the data set's folder.
        sha256: the recorded digest, or ``None`` where none is known.
        archive: whether it is unpacked.
        strip: leading folders of the archive's paths to drop.
    """

    url: str
    target: str
    sha256: str | None = None
    archive: bool = False
    strip: int = 0


@dataclass(frozen=True)
class DatasetInfo:
    """A data set as the registry knows it.

    Attributes:
        name: the name on the command line.
        title: the name in print.
        splits: all splits; for users' own data a single one.
        threshold: what PCK's radius is a fraction of: image, key-points' extent or object box.
        folders: names of its folder, below the cache or any folder that holds several data sets.
        markers: a path that exists in the data set's own folder; one of them is enough.
        licence: terms of use.
        citation: authors, title, venue.
        homepage: for people.
        sources: files that ``simsc data download`` fetches.
        by_hand: what to do where a source is gone or asks for an account.
        counts: ``{split: (pairs, points)}`` of the complete data set.
    """

    name: str
    title: str
    splits: tuple[str, ...]
    threshold: Threshold
    folders: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    licence: str = ""
    citation: str = ""
    homepage: str = ""
    sources: tuple[Source, ...] = ()
    by_hand: str = ""
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)


_PFPASCAL = DatasetInfo(
    name="pfpascal",
    title="PF-PASCAL",
    splits=("train", "val", "test", "clean"),
    threshold="img",
    folders=("pfpascal", "pf-pascal", "PF-PASCAL"),
    markers=("PF-dataset-PASCAL",),
    counts={"train": (2940, 23888), "val": (308, 2519), "test": (299, 2414)},
)

DATASETS: dict[str, DatasetInfo] = {info.name: info for info in (_PFPASCAL,)}


def dataset_info(name: str) -> DatasetInfo:
    """The entry of a data set, or a sentence with the allowed names."""
    if name not in DATASETS:
        raise ConfigError(unknown_name("data set", name, DATASETS))
    return DATASETS[name]
