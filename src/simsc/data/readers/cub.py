"""CUB-200-2011: birds with 15 parts; pairs are drawn within each species by a seed.

Files, with image ids in the first column: ``images.txt``, ``image_class_labels.txt``, ``train_test_split.txt``,
``bounding_boxes.txt`` (left, top, width, height) and ``parts/part_locs.txt`` (part, x, y, visible). Coordinates are
taken as they are, 0-based.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from simsc.data.pairing import Annotated, form_pairs
from simsc.data.readers.building import ImageFolder
from simsc.data.readers.coco import box_of
from simsc.data.readers.reading import read_text
from simsc.data.records import Pair
from simsc.errors import DataError

PAIRS_PER_SPECIES = 20
PARTS = 15


def read_pairs(root: Path, split: str, *, pairs_per_species: int = PAIRS_PER_SPECIES, seed: int = 0) -> list[Pair]:
    """Pairs within a species, from the official training or test images.

    Args:
        root: the folder that holds ``images.txt``.
        split: ``train`` or ``test``.
        pairs_per_species: how many pairs are drawn per species.
        seed: of the draw.
    """
    training = {number: row[0] == "1" for number, row in _rows(root / "train_test_split.txt", 1).items()}
    names = {int(number): row[0] for number, row in _rows(root / "classes.txt", 1).items()}
    part_names = [row[0] for _, row in sorted(_rows(root / "parts" / "parts.txt", 1, rest=True).items())]
    members: dict[int, list[Annotated]] = defaultdict(list)
    labels = _rows(root / "image_class_labels.txt", 1)
    for number, bird in _birds(root, {n for n, trains in training.items() if trains == (split == "train")}):
        members[int(labels[number][0])].append(bird)
    return [
        pair
        for species in sorted(members)
        for pair in form_pairs(
            names[species], members[species], limit=pairs_per_species, seed=seed, point_names=part_names
        )
    ]


def _birds(root: Path, wanted: set[int]) -> list[tuple[int, Annotated]]:
    images = ImageFolder(root)
    boxes = _rows(root / "bounding_boxes.txt", 4)
    parts = _part_locations(root / "parts" / "part_locs.txt")
    birds = []
    for number, (name, *_) in _rows(root / "images.txt", 1).items():
        if number not in wanted:
            continue
        if number not in parts:
            raise DataError(f"{root / 'parts' / 'part_locs.txt'}: image {number} ({name}) has no parts")
        values = parts[number]
        image = images.ref(root / "images" / name)
        box = _box(boxes[number], root) if number in boxes else None
        birds.append((number, Annotated(Path(name).stem, image, values[:, :2], values[:, 2] > 0, box)))
    return birds


def _box(row: list[str], root: Path) -> np.ndarray | None:
    where = str(root / "bounding_boxes.txt")
    try:
        return box_of({"bbox": [float(value) for value in row]}, where)
    except ValueError:
        raise DataError(f"{where}: expected left, top, width and height, got {row}") from None


def _part_locations(path: Path) -> dict[int, np.ndarray]:
    """``(15, 3)`` x, y, visible of every image."""
    try:
        table = np.array([line.split() for line in read_text(path).splitlines()], dtype=np.float64)
        table = table.reshape(-1, PARTS, 5)
    except ValueError:
        raise DataError(f"{path}: expected {PARTS} lines of five numbers per image") from None
    return {int(rows[0, 0]): rows[np.argsort(rows[:, 1]), 2:] for rows in table}


def _rows(path: Path, columns: int, rest: bool = False) -> dict[int, list[str]]:
    """``{id: columns}`` of a file of lines that start with an id; ``rest`` keeps blanks in the last column."""
    rows = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        parts = line.split(maxsplit=columns) if rest else line.split()
        if len(parts) != columns + 1 or not parts[0].isdigit():
            raise DataError(f"{path}, line {number}: expected an id and {columns} columns, got '{line[:60]}'")
        rows[int(parts[0])] = parts[1:]
    return rows
