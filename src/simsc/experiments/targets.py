"""The data sets an experiment measures on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simsc.data.locate import find_root
from simsc.data.sources import dataset_info
from simsc.errors import DataError

CLEAN = "clean"
_PAPER_TITLES = {
    "pfpascal": "PF-Pascal",
    "pfwillow": "PF-Willow",
    "spair_transfer": "SPair (T)",
    "spair_finetuned": "SPair (F)",
}


@dataclass(frozen=True)
class Target:
    """A test split.

    Attributes:
        data: its name in the registry.
        title: heading of its column.
    """

    data: str
    title: str
    split: str = "test"

    @property
    def columns(self) -> list[str]:
        """Its heading, and that of its clean subset where its official split leaks."""
        return [self.title, f"{self.title} clean"] if CLEAN in dataset_info(self.data).splits else [self.title]


def column_of_paper(data: str) -> str:
    """The heading of one of the paper's data sets.

    >>> column_of_paper("spair_transfer")
    'SPair (T)'
    """
    return _PAPER_TITLES[data]


def targets_for(trained_on: str) -> list[Target]:
    """What the paper measures for a model trained on a data set: its own test split, and the transfers."""
    if trained_on == "pfpascal":
        return [
            Target("pfpascal", _PAPER_TITLES["pfpascal"]),
            Target("pfwillow", _PAPER_TITLES["pfwillow"]),
            Target("spair", _PAPER_TITLES["spair_transfer"]),
        ]
    if trained_on == "spair":
        return [Target("spair", _PAPER_TITLES["spair_finetuned"])]
    return [Target(trained_on, dataset_info(trained_on).title)]


def available(targets: Sequence[Target], root: Path | None) -> tuple[list[Target], list[str]]:
    """The targets whose data are on this machine, and a remark for each that is left out."""
    found, notes = [], []
    for target in targets:
        info = dataset_info(target.data)
        try:
            if info.markers:
                find_root(info, root)
            found.append(target)
        except DataError as error:
            notes.append(f"{target.title} is left out: {error}.")
    return found, notes
