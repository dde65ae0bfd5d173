"""PF-Pascal: ``.mat`` annotations per image and lists of pairs, all 1-based on disk.

Two layouts: ``image_pairs/{train,val,test}_pairs.csv``, or ``{trn,val,test}_pairs.csv``, both beside
``PF-dataset-PASCAL/``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import numpy as np

from simsc.data.readers.building import ImageFolder, Side, make_pair, unique_names
from simsc.data.readers.reading import as_points, finite_box, read_csv, read_mat
from simsc.data.records import Pair
from simsc.errors import DataError

MARKER = "PF-dataset-PASCAL"
SPLITS = ("train", "train-all", "val", "test", "clean")
CATEGORIES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *(
        "diningtable",
        "dog",
        "horse",
        "motorbike",
        "person",
        "pottedplant",
        "sheep",
        "sofa",
        "train",
        "tvmonitor",
    ),
)
_LISTS = {
    "train": ("train_pairs.csv", "trn_pairs.csv", "train_pairs_pf_pascal.csv"),
    "val": ("val_pairs.csv", "val_pairs_pf_pascal.csv"),
    "test": ("test_pairs.csv", "test_pairs_pf_pascal.csv"),
}


@dataclass(frozen=True)
class _Annotation:
    points: np.ndarray  # (K, 2), 0-based, NaN = absent
    box: np.ndarray | None


def read_pairs(root: Path, split: str) -> list[Pair]:
    """All pairs of a split.

    ``clean`` are the test pairs that train does not hold in either order. ``train-all`` are all pairs of training
    images that can be formed, see :func:`_formed_pairs`.
    """
    if split == "clean":
        seen = {frozenset(pair) for pair in listed_images(root, "train")}
        listed = listed_images(root, "test")
        pairs = read_pairs(root, "test")
        return [pair for pair, images in zip(pairs, listed, strict=True) if frozenset(images) not in seen]
    if split == "train-all":
        return _formed_pairs(root)
    return _Reader(root).read(_list_file(root, split))


def listed_images(root: Path, split: str) -> list[tuple[str, str]]:
    """Names ``(source, target)`` of the images of each pair of a list, without reading annotations."""
    rows = read_csv(_list_file(root, split), ("source_image", "target_image"))
    return [(Path(row["source_image"]).stem, Path(row["target_image"]).stem) for row in rows]


def _formed_pairs(root: Path) -> list[Pair]:
    """All pairs of training images of a category, in both orders, plain and mirrored.

    Left out are the pairs of validation and test, in either order, unless train itself lists them.
    """
    path = _list_file(root, "train")
    listed = listed_images(root, "train")
    held_out = {frozenset(pair) for split in ("val", "test") for pair in listed_images(root, split)}
    held_out -= {frozenset(pair) for pair in listed}
    images: dict[str, set[str]] = defaultdict(set)
    for pair, row in zip(listed, read_csv(path, ("class",)), strict=True):
        images[_category(row["class"], str(path))].update(pair)
    reader = _Reader(root)
    return [
        pair for category, stems in sorted(images.items()) for pair in reader.form(category, sorted(stems), held_out)
    ]


def _list_file(root: Path, split: str) -> Path:
    folders = (root / "image_pairs", root, root / MARKER, root / "pf-pascal_image_pairs")
    candidates = [folder / name for name in _LISTS[split] for folder in folders]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise DataError(
        f"{root}: the list of PF-Pascal {split} pairs is missing; put it at {candidates[0]} "
        "(run `simsc data download pfpascal`)"
    )


class _Reader:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.images = ImageFolder(root / MARKER)
        self.annotations: dict[Path, _Annotation] = {}

    def read(self, path: Path) -> list[Pair]:
        unique = unique_names()
        rows = read_csv(path, ("source_image", "target_image", "class"))
        return [self._pair(row, f"{path}, line {number}", unique) for number, row in enumerate(rows, start=2)]

    def form(self, category: str, stems: list[str], held_out: set[frozenset[str]]) -> Iterator[Pair]:
        """Every ordered pair of some images with a common key-point, plain and mirrored, but for those held out."""
        plain = {stem: self._whole_side(category, stem) for stem in stems}
        sides = {"": plain, "|flip": {stem: side.mirrored() for stem, side in plain.items()}}
        present = {stem: np.isfinite(side.points).all(axis=1) for stem, side in plain.items()}
        if len({len(mask) for mask in present.values()}) > 1:
            raise DataError(f"{self.root}: annotations of '{category}' differ in their number of key-points")
        for source, target in permutations(stems, 2):
            common = np.flatnonzero(present[source] & present[target])
            if not len(common) or frozenset((source, target)) in held_out:
                continue
            names = tuple(str(index) for index in common)
            for tag, side in sides.items():
                first, second = (replace(side[stem], points=side[stem].points[common]) for stem in (source, target))
                yield make_pair(f"{category}/{source}-{target}{tag}", category, first, second, names)

    def _whole_side(self, category: str, stem: str) -> Side:
        """An image with all its points, absent ones as NaN."""
        annotation = self._annotation(category, stem)
        return self._side(stem, annotation.points, annotation)

    def _pair(self, row: dict[str, str], where: str, unique: Callable[[str], str]) -> Pair:
        category = _category(row["class"], where)
        flip = (row.get("flip") or "0").strip() in ("1", "1.0")
        stems = [Path(row[column]).stem for column in ("source_image", "target_image")]
        found = [self._annotation(category, stem) for stem in stems]
        points, names = _points_of_row(row, found, where)
        source, target = (self._side(*side) for side in zip(stems, points, found, strict=True))
        if flip:
            source, target = source.mirrored(), target.mirrored()
        name = unique(f"{category}/{stems[0]}-{stems[1]}" + ("|flip" if flip else ""))
        return make_pair(name, category, source, target, names)

    def _side(self, stem: str, points: np.ndarray, annotation: _Annotation) -> Side:
        return Side(self.images.ref(self.root / MARKER / "JPEGImages" / f"{stem}.jpg"), points, annotation.box)

    def _annotation(self, category: str, stem: str) -> _Annotation:
        path = self.root / MARKER / "Annotations" / category / f"{stem}.mat"
        if path not in self.annotations:
            content = read_mat(path, "kps")
            points = as_points(content["kps"], f"{path}: kps") - 1  # MATLAB counts from 1
            box = finite_box(content.get("bbox"), f"{path}: bbox")
            self.annotations[path] = _Annotation(points, None if box is None else box - 1)
        return self.annotations[path]


def _points_of_row(
    row: dict[str, str], found: list[_Annotation], where: str
) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """Points of both images: the row's own coordinates if it has some, else those present in both files."""
    source, target = (annotation.points for annotation in found)
    if len(source) != len(target):
        raise DataError(f"{where}: the two annotations have {len(source)} and {len(target)} key-points")
    common = np.flatnonzero(np.isfinite(source).all(axis=1) & np.isfinite(target).all(axis=1))
    names = tuple(str(index) for index in common)
    if not row.get("XA"):
        return [source[common], target[common]], names
    points = [_listed_points(row, side, where) for side in "AB"]
    if len(points[0]) != len(points[1]):
        raise DataError(f"{where}: {len(points[0])} points in XA but {len(points[1])} in XB")
    present = np.isfinite(points[0]).all(axis=1) & np.isfinite(points[1]).all(axis=1)
    points = [side[present] for side in points]
    return points, names if len(names) == len(points[0]) else ()


def _listed_points(row: dict[str, str], side: str, where: str) -> np.ndarray:
    columns = []
    for axis in "XY":
        text = row.get(f"{axis}{side}") or ""
        try:
            columns.append([float(number) for number in text.split(";") if number.strip()])
        except ValueError:
            raise DataError(f"{where}: column '{axis}{side}' must hold numbers with ';', got '{text[:40]}'") from None
    if len(columns[0]) != len(columns[1]):
        raise DataError(f"{where}: {len(columns[0])} values in X{side} but {len(columns[1])} in Y{side}")
    return np.array(columns, dtype=np.float64).T - 1


def _category(text: str, where: str) -> str:
    name = text.strip()
    if name in CATEGORIES:
        return name
    try:
        number = int(float(name))
    except ValueError:
        number = 0
    if not 1 <= number <= len(CATEGORIES):
        raise DataError(f"{where}: column 'class' must be 1 to {len(CATEGORIES)}, got '{text}'")
    return CATEGORIES[number - 1]
