"""CUB-200-2011: birds with 15 parts; pairs are drawn within each species by a seed.

Files, with image ids in the first column: ``images.txt``, ``image_class_labels.txt``, ``train_test_split.txt``,
``bounding_boxes.txt`` (left, top, width, height) and ``parts/part_locs.txt`` (part, x, y, visible). Coordinates are
taken as they are, 0-based.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simsc.data.catalog import Dataset, DatasetInfo, Source
from simsc.data.readers.building import ImageFolder, inside
from simsc.data.readers.coco import box_of
from simsc.data.records import Annotated
from simsc.errors import DataError
from simsc.reading import below, read_text

PARTS = 15


class CUB(Dataset):
    """Birds of 200 species; pairs of the same species."""

    info = DatasetInfo(
        name="cub",
        title="CUB-200-2011",
        splits=("train", "test"),
        threshold="bbox",
        folders=("cub", "CUB_200_2011"),
        markers=("image_class_labels.txt",),
        licence="non-commercial research and education",
        citation="Wah, Branson, Welinder, Perona, Belongie: The Caltech-UCSD Birds-200-2011 Dataset. 2011",
        homepage="https://www.vision.caltech.edu/datasets/cub_200_2011/",
        sources=(
            Source(
                "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",
                "CUB_200_2011.tgz",
                sha256="0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081",
                missing="get CUB_200_2011.tgz from https://data.caltech.edu/records/65de6-vp158",
            ),
        ),
    )
    pairs_per_category = 20

    def objects(self, root: Path, split: str) -> list[Annotated]:
        """The official training or test images, species by species."""
        training = {number: row[0] == "1" for number, row in _rows(root / "train_test_split.txt", 1).items()}
        species = _species(root / "image_class_labels.txt")
        wanted = [number for number, trains in training.items() if trains == (split == "train")]
        if unknown := [number for number in wanted if number not in species]:
            raise DataError(f"{root / 'image_class_labels.txt'}: image {unknown[0]} has no species")
        reader = _Reader(root)
        return [reader.bird(number, species[number]) for number in sorted(wanted, key=lambda one: (species[one], one))]


CUB_200_2011 = CUB()


class _Reader:
    """The tables of the data set."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, ImageFolder(root)
        self.images = _rows(root / "images.txt", 1)
        self.boxes = _rows(root / "bounding_boxes.txt", 4)
        self.parts = _part_locations(root / "parts" / "part_locs.txt")
        self.species = {int(number): row[0] for number, row in _rows(root / "classes.txt", 1).items()}
        names = _rows(root / "parts" / "parts.txt", 1, rest=True)
        self.part_names = tuple(row[0] for _, row in sorted(names.items()))
        if len(self.part_names) != PARTS:
            raise DataError(f"{root / 'parts' / 'parts.txt'}: expected {PARTS} parts, got {len(self.part_names)}")

    def bird(self, number: int, species: int) -> Annotated:
        """The bird of an image."""
        if number not in self.images:
            raise DataError(f"{self.root / 'images.txt'}: image {number} is not listed")
        name = self.images[number][0]
        if number not in self.parts:
            raise DataError(f"{self.root / 'parts' / 'part_locs.txt'}: image {number} ({name}) has no parts")
        points, present = self.parts[number][:, :2], self.parts[number][:, 2] > 0
        if species not in self.species:
            raise DataError(f"{self.root / 'classes.txt'}: species {species} of image {number} is not listed")
        image = self.folder.ref(below(self.root / "images", name, self.root / "images.txt"))
        inside(points[present], image.size, f"{self.root}: parts of image {number}")
        box = _box(self.boxes[number], self.root) if number in self.boxes else None
        return Annotated(Path(name).stem, self.species[species], image, points, present, box, self.part_names)


def _species(path: Path) -> dict[int, int]:
    """Number of the species of every image."""
    rows = _rows(path, 1)
    if wrong := [number for number, row in rows.items() if not _is_number(row[0])]:
        raise DataError(f"{path}: the species of image {wrong[0]} must be a number, got '{rows[wrong[0]][0][:40]}'")
    return {number: int(row[0]) for number, row in rows.items()}


def _is_number(text: str) -> bool:
    """Whether a text is an id: digits as ASCII has them, and not too many."""
    return text.isascii() and text.isdigit() and len(text) < 10


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
        if not (np.isfinite(table).all() and (abs(table) < 1e9).all()):
            raise ValueError
    except ValueError:
        raise DataError(f"{path}: expected {PARTS} lines of five numbers per image") from None
    return {int(rows[0, 0]): rows[np.argsort(rows[:, 1]), 2:] for rows in table}


def _rows(path: Path, columns: int, rest: bool = False) -> dict[int, list[str]]:
    """``{id: columns}`` of a file of lines that start with an id; ``rest`` keeps blanks in the last column."""
    rows = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        parts = line.split(maxsplit=columns) if rest else line.split()
        if len(parts) != columns + 1 or not _is_number(parts[0]):
            raise DataError(f"{path}, line {number}: expected an id and {columns} columns, got '{line[:60]}'")
        rows[int(parts[0])] = parts[1:]
    return rows
