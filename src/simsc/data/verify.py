"""Checks a data set on disk: counts against the known ones, every image header, and points outside images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from simsc.data.catalog import dataset_info
from simsc.data.records import ImageRef, Pair, count_points
from simsc.data.sources import load_pairs
from simsc.errors import DataError
from simsc.images import image_size


@dataclass
class SplitSummary:
    """Size of one split."""

    pairs: int
    points: int
    images: int
    points_outside: int
    categories: dict[str, int]


@dataclass
class Report:
    """What was found of a data set.

    Attributes:
        name: the data set.
        splits: those that can be read.
        absent: splits that cannot be read, with the reason.
        problems: sentences; empty if all is well.
        images: distinct image files whose headers were opened.
    """

    name: str
    splits: dict[str, SplitSummary] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    images: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def summarize(pairs: list[Pair]) -> SplitSummary:
    """Counts of a list of pairs."""
    keys = {ref.key for pair in pairs for ref in (pair.source, pair.target)}
    categories = Counter(pair.category for pair in pairs)
    outside = sum(_outside(pair) for pair in pairs)
    return SplitSummary(len(pairs), count_points(pairs), len(keys), outside, dict(sorted(categories.items())))


def describe(name: str, root: Path | str | None = None) -> Report:
    """Counts of every split that can be read."""
    return _read_splits(name, root)[0]


def verify(name: str, root: Path | str | None = None) -> Report:
    """Counts of every split, compared with the known ones, and the header of every image."""
    report, images = _read_splits(name, root)
    report.problems += compare_counts(report, dataset_info(name).counts)
    report.images = len(images)
    report.problems += [problem for ref in images if (problem := _header_problem(ref))]
    return report


def compare_counts(report: Report, expected: Mapping[str, tuple[int, int | None]]) -> list[str]:
    """Sentences for the splits that were read and are not of the expected size."""
    problems = []
    for split, (pairs, points) in expected.items():
        found = report.splits.get(split)
        if found and found.pairs != pairs:
            problems.append(f"{split}: {found.pairs:,} pairs, expected {pairs:,}")
        if found and points is not None and found.points != points:
            problems.append(f"{split}: {found.points:,} points, expected {points:,}")
    return problems


def _read_splits(name: str, root: Path | str | None) -> tuple[Report, list[ImageRef]]:
    report, images = Report(name), dict[str, ImageRef]()
    for split in dataset_info(name).splits:
        try:
            pairs = load_pairs(name, root, split)
        except DataError as error:
            report.absent[split] = str(error)
            continue
        report.splits[split] = summarize(pairs)
        images |= {str(ref.path): ref for pair in pairs for ref in (pair.source, pair.target) if ref.path}
    if not report.splits:
        raise DataError(next(iter(report.absent.values())))
    return report, list(images.values())


def _header_problem(ref: ImageRef) -> str | None:
    assert ref.path is not None
    try:
        size = image_size(ref.path)
    except DataError as error:
        return str(error)
    if size != tuple(ref.size):
        return f"{ref.path}: is {size[1]}x{size[0]}, its annotation says {ref.size[1]}x{ref.size[0]}"
    return None


def _outside(pair: Pair) -> int:
    """Points of either side that lie outside their image, pixel centres being at integers."""
    count = 0
    for ref, points in ((pair.source, pair.source_points), (pair.target, pair.target_points)):
        limit = np.array([ref.size[1], ref.size[0]]) - 0.5
        count += int(((points < -0.5) | (points > limit)).any(axis=1).sum())
    return count
