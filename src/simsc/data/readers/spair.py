"""SPair-71k: ``Layout`` lists the pairs, ``PairAnnotation`` or ``ImageAnnotation`` hold the points, 0-based.

Where ``PairAnnotation/<split>`` is missing, a pair's points are the key-points present in both images, by id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simsc.coordinates import Size
from simsc.data.catalog import Dataset, DatasetInfo, Source
from simsc.data.locate import find_root
from simsc.data.readers import pfpascal
from simsc.data.readers.building import ImageFolder, inside
from simsc.data.readers.reading import as_points, finite_box
from simsc.data.records import Annotated, ImageRef, Pair, View, pair_of
from simsc.errors import DataError
from simsc.reading import read_json, read_text, typed_field

_FOLDERS = {
    "train": ("large", "trn"),
    "val": ("large", "val"),
    "test": ("large", "test"),
    "clean": ("large", "test"),
    "partial-trn": ("partial", "trn"),
    "partial-val": ("partial", "val"),
}


class SPair(Dataset):
    """``clean`` are the test pairs without any training image of PF-Pascal."""

    info = DatasetInfo(
        name="spair",
        title="SPair-71k",
        splits=("train", "val", "test", "clean", "partial-trn", "partial-val"),
        threshold="bbox",
        folders=("spair", "spair-71k", "SPair-71k"),
        markers=("ImageAnnotation", "PairAnnotation"),
        licence="research use; the photographs are PASCAL VOC's, under the terms of Flickr",
        citation="Min, Lee, Ponce, Cho: SPair-71k: A Large-scale Benchmark for Semantic Correspondence. 2019",
        homepage="https://cvlab.postech.ac.kr/research/SPair-71k/",
        sources=(
            Source(
                "https://cvlab.postech.ac.kr/research/SPair-71k/data/SPair-71k.tar.gz",
                "SPair-71k.tar.gz",
                missing="get SPair-71k.tar.gz from the project page of SPair-71k",
            ),
        ),
        counts={
            "train": (53340, None),
            "val": (5384, None),
            "test": (12234, 88328),
            "clean": (8444, 58908),
            "partial-trn": (1594, 10790),
            "partial-val": (212, 1538),
        },
    )
    listed = True

    def objects(self, root: Path, split: str) -> list[Annotated]:
        """The images of a split's list, in its order, with their viewpoints."""
        reader = _Reader(root)
        ends = ((entry.category, name) for entry in _entries(root, split) for name in (entry.source, entry.target))
        return [reader.annotated(category, name) for category, name in dict.fromkeys(ends)]

    def pairs(self, root: Path, split: str) -> list[Pair]:
        """The list of a split."""
        layout, part = _FOLDERS[split]
        folder = root / "PairAnnotation" / part
        reader = _Reader(root)
        if layout == "large" and folder.is_dir():
            return [reader.read_pair(entry, folder / f"{entry.line}.json") for entry in _entries(root, split)]
        return [reader.form_pair(entry) for entry in _entries(root, split)]


SPAIR = SPair()


def _entries(root: Path, split: str) -> list[_Entry]:
    entries = [_Entry.parse(line, root) for line in _lines(root, *_FOLDERS[split])]
    if split != "clean":
        return entries
    seen = pfpascal_training_images(root)
    return [entry for entry in entries if not seen & {entry.source, entry.target}]


def pfpascal_training_images(root: Path) -> set[str]:
    """Names of PF-Pascal's training images, from its list beside SPair-71k or in the usual places."""
    for place in (root.parent, root.resolve().parent.parent, None):
        try:
            listed = pfpascal.listed_images(find_root(pfpascal.PFPASCAL.info, place), "train")
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
        if len(parts) != 3 or not category or {"/", "\\", "\0"} & set(line) or category in (".", ".."):
            raise DataError(f"{root}: '{line}' is not of the form <number>-<source>-<target>:<category>")
        return cls(line, parts[1], parts[2], category)


class _Reader:
    """Reads each image annotation once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.images = ImageFolder(root)
        self._annotated: dict[tuple[str, str], Annotated] = {}

    def annotated(self, category: str, name: str) -> Annotated:
        """An image with its points, row by id."""
        key = category, name
        if key not in self._annotated:
            path = self.root / "ImageAnnotation" / category / f"{name}.json"
            content = read_json(path)
            size = (typed_field(content, "image_height", int, path), typed_field(content, "image_width", int, path))
            if min(size) < 1:
                raise DataError(
                    f"{path}: 'image_height' and 'image_width' must be above 0, got {size[0]} and {size[1]}"
                )
            points, present = _points_by_id(typed_field(content, "kps", dict, path), path)
            inside(points[present], size, f"{path}: kps")
            box = finite_box(content.get("bndbox"), f"{path}: bndbox")
            self._annotated[key] = Annotated(
                name, category, self._image(category, name, size), points, present, box, view=_view(content)
            )
        return self._annotated[key]

    def form_pair(self, entry: _Entry) -> Pair:
        """A pair with the points that both image annotations have."""
        source, target = (self.annotated(entry.category, name) for name in (entry.source, entry.target))
        return pair_of(source, target, entry.line)

    def read_pair(self, entry: _Entry, path: Path) -> Pair:
        """A pair as its own file has it."""
        content = read_json(path)
        names = tuple(str(index) for index in typed_field(content, "kps_ids", list, path))
        source, target = (
            self._side(content, entry.category, name, side, path)
            for side, name in (("src", entry.source), ("trg", entry.target))
        )
        return replace(pair_of(source, target, entry.line), point_names=names)

    def _side(self, content: Any, category: str, name: str, side: str, path: Path) -> Annotated:
        width, height = _image_size(content, f"{side}_imsize", path)
        points = as_points(typed_field(content, f"{side}_kps", list, path), f"{path}: {side}_kps")
        inside(points, (height, width), f"{path}: {side}_kps")
        box = finite_box(content.get(f"{side}_bndbox"), f"{path}: {side}_bndbox")
        image = self._image(category, name, (height, width))
        return Annotated(name, category, image, points, np.ones(len(points), dtype=bool), box)

    def _image(self, category: str, name: str, size: Size) -> ImageRef:
        return self.images.ref(self.root / "JPEGImages" / category / f"{name}.jpg", size)


def _points_by_id(listed: dict[str, Any], path: Path) -> tuple[np.ndarray, np.ndarray]:
    """``(K, 2)`` points and ``(K,)`` whether there is one, in the rows that their ids name."""
    found = {name: point for name, point in listed.items() if point is not None}
    if not all(name.isdecimal() and len(name) < 10 for name in found):
        raise DataError(f"{path}: the names in 'kps' must be numbers, got {str(sorted(found))[:80]}")
    ids = [int(name) for name in found]
    if max(ids, default=0) > 999:
        raise DataError(f"{path}: the names in 'kps' must be below 1000, got {max(ids)}")
    points, present = np.full((max(ids, default=-1) + 1, 2), np.nan), np.zeros(max(ids, default=-1) + 1, dtype=bool)
    points[ids], present[ids] = as_points(list(found.values()), f"{path}: kps"), True
    return points, present


def _view(content: Any) -> View:
    flags = {name: bool(content[name]) for name in ("truncated", "occluded") if isinstance(content.get(name), int)}
    azimuth, pose = content.get("azimuth_id"), content.get("pose")
    return View(
        azimuth if isinstance(azimuth, int) else None,
        pose if isinstance(pose, str) else None,
        flags.get("truncated"),
        flags.get("occluded"),
    )


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
