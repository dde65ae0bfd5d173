"""SPair-71k: ``Layout`` lists the pairs, ``PairAnnotation`` or ``ImageAnnotation`` hold the points, 0-based.

Where ``PairAnnotation/<split>`` is missing, a pair's points are the key-points present in both images, by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from simsc.coordinates import Size
from simsc.data.locate import find_root
from simsc.data.readers import pfpascal
from simsc.data.readers.building import ImageFolder, Side, make_pair
from simsc.data.readers.reading import as_points, finite_box, read_json, read_text, typed_field
from simsc.data.records import ImageRef, Pair
from simsc.errors import DataError

_FOLDERS = {
    "train": ("large", "trn"),
    "val": ("large", "val"),
    "test": ("large", "test"),
    "clean": ("large", "test"),
    "partial-trn": ("partial", "trn"),
    "partial-val": ("partial", "val"),
}


def read_pairs(root: Path, split: str) -> list[Pair]:
    """All pairs of a split; ``clean`` are the test pairs without any training image of PF-Pascal."""
    layout, part = _FOLDERS[split]
    reader = _Reader(root, root / "PairAnnotation" / part if layout == "large" else None)
    entries = [_Entry.parse(line, root) for line in _lines(root, layout, part)]
    if split == "clean":
        seen = pfpascal_training_images(root)
        entries = [entry for entry in entries if not seen & {entry.source, entry.target}]
    return [reader.pair(entry) for entry in entries]


def pfpascal_training_images(root: Path) -> set[str]:
    """Names of PF-Pascal's training images, from its list beside SPair-71k or in the usual places."""
    from simsc.data.catalog import dataset_info

    info = dataset_info("pfpascal")
    for place in (root.parent, root.resolve().parent.parent, None):
        try:
            listed = pfpascal.listed_images(find_root(info, place), "train")
        except DataError:
            continue
        return {name for pair in listed for name in pair}
    raise DataError(
        "the split 'clean' of spair leaves out PF-Pascal's training images, but PF-Pascal's list of training "
        f"pairs is neither beside {root} nor in the cache; run `simsc data download pfpascal`"
    )


@dataclass(frozen=True)
class _Entry:
    """A line of a layout file: ``<number>-<source>-<target>:<category>``."""

    line: str
    source: str
    target: str
    category: str

    @classmethod
    def parse(cls, line: str, root: Path) -> _Entry:
        names, _, category = line.partition(":")
        parts = names.split("-")
        if len(parts) != 3 or not category:
            raise DataError(f"{root}: '{line}' is not of the form <number>-<source>-<target>:<category>")
        return cls(line, parts[1], parts[2], category)


@dataclass(frozen=True)
class _Annotation:
    image: ImageRef
    points: Mapping[int, Any]
    box: np.ndarray | None

    @cached_property
    def ids(self) -> frozenset[int]:
        return frozenset(self.points)


class _Reader:
    """Reads each image annotation once."""

    def __init__(self, root: Path, pair_folder: Path | None) -> None:
        self.root = root
        self.images = ImageFolder(root)
        self.pair_folder = pair_folder if pair_folder and pair_folder.is_dir() else None
        self._annotations: dict[tuple[str, str], _Annotation] = {}

    def pair(self, entry: _Entry) -> Pair:
        if self.pair_folder:
            return self._from_pair_file(entry, self.pair_folder / f"{entry.line}.json")
        source = self._annotation(entry.category, entry.source)
        target = self._annotation(entry.category, entry.target)
        common = sorted(source.ids & target.ids)
        source_side, target_side = (
            Side(one.image, as_points([one.points[index] for index in common], entry.line), one.box)
            for one in (source, target)
        )
        return make_pair(entry.line, entry.category, source_side, target_side, tuple(map(str, common)))

    def _annotation(self, category: str, name: str) -> _Annotation:
        key = category, name
        if key not in self._annotations:
            path = self.root / "ImageAnnotation" / category / f"{name}.json"
            content = read_json(path)
            size = (typed_field(content, "image_height", int, path), typed_field(content, "image_width", int, path))
            points = {
                name: point for name, point in typed_field(content, "kps", dict, path).items() if point is not None
            }
            if not all(name.isdecimal() for name in points):
                raise DataError(f"{path}: the names in 'kps' must be numbers, got {sorted(points)}")
            box = finite_box(content.get("bndbox"), f"{path}: bndbox")
            by_id = {int(name): point for name, point in points.items()}
            self._annotations[key] = _Annotation(self._image(category, name, size), by_id, box)
        return self._annotations[key]

    def _from_pair_file(self, entry: _Entry, path: Path) -> Pair:
        content = read_json(path)
        sides = []
        for side, name in (("src", entry.source), ("trg", entry.target)):
            width, height = _image_size(content, f"{side}_imsize", path)
            points = as_points(typed_field(content, f"{side}_kps", list, path), f"{path}: {side}_kps")
            box = finite_box(content.get(f"{side}_bndbox"), f"{path}: {side}_bndbox")
            sides.append(Side(self._image(entry.category, name, (height, width)), points, box))
        names = tuple(str(index) for index in typed_field(content, "kps_ids", list, path))
        return make_pair(entry.line, entry.category, sides[0], sides[1], names)

    def _image(self, category: str, name: str, size: Size) -> ImageRef:
        return self.images.ref(self.root / "JPEGImages" / category / f"{name}.jpg", size)


def _lines(root: Path, layout: str, part: str) -> list[str]:
    listing = root / "Layout" / layout / f"{part}.txt"
    if listing.is_file():
        return [line.strip() for line in read_text(listing).splitlines() if line.strip()]
    folder = root / "PairAnnotation" / part
    if layout == "large" and folder.is_dir():
        return sorted(path.stem for path in folder.glob("*.json"))
    raise DataError(f"{root}: the list of pairs Layout/{layout}/{part}.txt is missing")


def _image_size(content: Any, name: str, path: Path) -> tuple[int, int]:
    """Width and height from the list width, height, channels."""
    values = typed_field(content, name, list, path)
    if len(values) < 2 or not all(isinstance(value, int) and value > 0 for value in values):
        raise DataError(f"{path}: the field '{name}' must be width, height, channels, got {values}")
    return values[0], values[1]
