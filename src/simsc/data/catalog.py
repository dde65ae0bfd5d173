"""Data sets by name: what is known of each, and the one class that a data set is.

To add one: a file with a :class:`Dataset`, and a line here; from another package an entry point of the group
``simsc.datasets`` whose name is the data set's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from simsc.data.pairing import draw_pairs
from simsc.data.records import Annotated, ImageRef, Pair
from simsc.registry import Registry

Threshold = Literal["img", "kps", "bbox"]


@dataclass(frozen=True)
class Source:
    """A file to download.

    Attributes:
        url: where it is.
        file: the name it gets; an archive is unpacked into the data set's folder.
        sha256: the recorded digest, or ``None`` where none is known.
        missing: what to do by hand when the address is gone.
    """

    url: str
    file: str
    sha256: str | None = None
    missing: str = ""

    @property
    def is_archive(self) -> bool:
        """Whether it is unpacked after the download."""
        return self.file.endswith((".zip", ".tar.gz", ".tgz", ".tar"))


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set.

    Attributes:
        name: the name on the command line.
        title: the name in print.
        splits: all splits.
        threshold: what PCK's radius is a fraction of: image, key-points' extent or object box.
        folders: names of its folder below the cache or another folder that holds data sets; the first is
            where a download goes.
        markers: paths one of which exists in the data set's own folder; empty for users' own files.
        drawn: whether it is made on demand and has no files.
        licence: terms of use.
        citation: authors, title, venue.
        homepage: for people.
        sources: files that ``simsc data download`` fetches.
        by_hand: how to get it where no download exists.
        counts: ``{split: (pairs, points)}`` of the complete data set; ``None`` where not measured.
    """

    name: str
    title: str
    splits: tuple[str, ...]
    threshold: Threshold
    folders: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    drawn: bool = False
    licence: str = ""
    citation: str = ""
    homepage: str = ""
    sources: tuple[Source, ...] = ()
    by_hand: str = ""
    counts: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether it is a format of the user's own files."""
        return not self.markers and not self.drawn


class Dataset(ABC):
    """A data set: its facts, and how its files are read.

    Attributes:
        info: the facts.
        listed: whether it comes with a list of pairs of its own, which :meth:`pairs` then gives in its order.
        pairs_per_category: how many pairs :meth:`pairs` draws of each category where there is no list.
    """

    info: ClassVar[DatasetInfo]
    listed: ClassVar[bool] = False
    pairs_per_category: ClassVar[int | None] = 1000

    @abstractmethod
    def objects(self, root: Path, split: str) -> list[Annotated]:
        """The annotated objects of a split, each once."""

    def pairs(self, root: Path, split: str) -> list[Pair]:
        """The pairs that a split is evaluated on: the data set's own list, or pairs drawn with seed 0."""
        return draw_pairs(self.objects(root, split), self.pairs_per_category)

    def images(self, root: Path, split: str) -> list[ImageRef]:
        """All images of a split."""
        return list({one.image.key: one.image for one in self.objects(root, split)}.values())

    def kept_apart(self, root: Path, split: str) -> frozenset[frozenset[str]]:  # noqa: ARG002 - most have none
        """Pairs of image keys that training must not form: another split is evaluated on them."""
        return frozenset()


DATASETS: Registry[Dataset] = Registry("data set", "simsc.datasets")
DATASETS.lazy("pfpascal", "simsc.data.readers.pfpascal:PFPASCAL")
DATASETS.lazy("pfwillow", "simsc.data.readers.pfwillow:PFWILLOW")
DATASETS.lazy("spair", "simsc.data.readers.spair:SPAIR")
DATASETS.lazy("ap10k", "simsc.data.readers.ap10k:AP10K_PAIRS")
DATASETS.lazy("cub", "simsc.data.readers.cub:CUB_200_2011")
DATASETS.lazy("voc", "simsc.data.readers.coco:VOC_KEYPOINTS")
DATASETS.lazy("coco", "simsc.data.readers.coco:COCO")
DATASETS.lazy("pairs", "simsc.data.readers.pairs:PAIRS")
DATASETS.lazy("scenes", "simsc.scenes.dataset:SCENES")


def dataset_info(name: str) -> DatasetInfo:
    """The facts of a data set, or a sentence with the allowed names."""
    return DATASETS[name].info
