"""PF-Pascal: ``.mat`` annotations per image and lists of pairs, all 1-based on disk.

Two layouts: ``image_pairs/{train,val,test}_pairs.csv``, or ``{trn,val,test}_pairs.csv``, both beside
``PF-dataset-PASCAL/``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np

from simsc.data.catalog import Dataset, DatasetInfo, Source
from simsc.data.pairing import by_category
from simsc.data.readers.building import ImageFolder, inside, unique_names
from simsc.data.readers.reading import as_points, finite_box, read_mat
from simsc.data.records import Annotated, Pair, common_points, pair_of
from simsc.errors import DataError
from simsc.reading import read_csv

MARKER = "PF-dataset-PASCAL"
CATEGORIES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
PROPOSAL_FLOW = "https://www.di.ens.fr/willow/research/proposalflow"
_PAIR_LISTS = "https://www.robots.ox.ac.uk/~xinghui/sd4match"
_LISTS = {
    "train": ("train_pairs.csv", "trn_pairs.csv", "train_pairs_pf_pascal.csv"),
    "val": ("val_pairs.csv", "val_pairs_pf_pascal.csv"),
    "test": ("test_pairs.csv", "test_pairs_pf_pascal.csv"),
}
_PARTS_OF_TEST = ("clean", "unseen")


class PFPascal(Dataset):
    """``clean`` are the test pairs that train does not hold in either order; ``unseen`` those of which train holds
    neither image.

    ``train-all`` are the training images, plain and mirrored, and all pairs of them that can be formed, but for those
    of validation and test that train does not list itself.
    """

    info = DatasetInfo(
        name="pfpascal",
        title="PF-PASCAL",
        splits=("train", "train-all", "val", "test", "clean", "unseen"),
        threshold="img",
        folders=("pfpascal", "pf-pascal", "PF-PASCAL"),
        markers=("PF-dataset-PASCAL",),
        licence="research use; the photographs are PASCAL VOC's, under the terms of Flickr",
        citation="Ham, Cho, Schmid, Ponce: Proposal Flow: Semantic Correspondences from Object Proposals. TPAMI 2018",
        homepage=f"{PROPOSAL_FLOW}/",
        sources=(
            Source(
                f"{PROPOSAL_FLOW}/dataset/PF-dataset-PASCAL.zip",
                "PF-dataset-PASCAL.zip",
                missing="get PF-dataset-PASCAL.zip from the project page of Proposal Flow",
            ),
            Source(
                f"{_PAIR_LISTS}/pf-pascal_image_pairs.zip",
                "pf-pascal_image_pairs.zip",
                missing="any of the public code bases for PF-PASCAL carries train_pairs.csv (or trn_pairs.csv), "
                "val_pairs.csv and test_pairs.csv: put them into the folder image_pairs beside PF-dataset-PASCAL",
            ),
        ),
        counts={
            "train": (2940, 23888),
            "train-all": (129624, 912752),
            "val": (308, 2519),
            "test": (299, 2414),
            "clean": (204, 1587),
            "unseen": (79, 599),
        },
    )
    listed = True

    def objects(self, root: Path, split: str) -> list[Annotated]:
        """The images of a split's list, sorted within each category; mirrored ones too in ``train-all``."""
        reader, path = _Reader(root), _list_file(root, split)
        kept = _kept(root, split)
        stems: dict[str, set[str]] = {}
        for number, row in enumerate(read_csv(path, _COLUMNS), start=2):
            if kept(frozenset(_stems(row))):
                stems.setdefault(_category(row["class"], f"{path}, line {number}"), set()).update(_stems(row))
        plain = [reader.annotated(category, stem) for category in sorted(stems) for stem in sorted(stems[category])]
        return plain + [one.mirrored() for one in plain] if split == "train-all" else plain

    def pairs(self, root: Path, split: str) -> list[Pair]:
        """The list of a split; of ``train-all`` every pair that can be formed."""
        if split == "train-all":
            return self._all_pairs(root)
        listed = _Reader(root).read(_list_file(root, split))
        if split not in _PARTS_OF_TEST:
            return listed
        kept, images = _kept(root, split), listed_images(root, "test")
        return [pair for pair, stems in zip(listed, images, strict=True) if kept(frozenset(stems))]

    def kept_apart(self, root: Path, split: str) -> frozenset[frozenset[str]]:
        """Where pairs of training images are formed: those of validation and test, unless train itself lists them."""
        if split not in ("train", "train-all"):
            return frozenset()
        held_out = (_unordered(root, "val") | _unordered(root, "test")) - _unordered(root, "train")
        return frozenset(
            frozenset(f"JPEGImages/{stem}{flip}" for stem in stems) for stems in held_out for flip in ("", "|flip")
        )

    def _all_pairs(self, root: Path) -> list[Pair]:
        """All pairs of training images of a category, in both orders, plain and mirrored."""
        apart = self.kept_apart(root, "train-all")
        pairs = []
        for members in by_category(self.objects(root, "train-all")).values():
            half = len(members) // 2
            for first, second in permutations(range(half), 2):
                for shift, tag in ((0, ""), (half, "|flip")):
                    source, target = members[first + shift], members[second + shift]
                    if len(common_points(source, target)) and {source.image.key, target.image.key} not in apart:
                        pairs.append(pair_of(source, target, f"{source.category}/{source.name}-{target.name}{tag}"))
        return pairs


PFPASCAL = PFPascal()
_COLUMNS = ("source_image", "target_image", "class")


def listed_images(root: Path, split: str) -> list[tuple[str, str]]:
    """Names ``(source, target)`` of the images of each pair of a list, without reading annotations."""
    return [_stems(row) for row in read_csv(_list_file(root, split), _COLUMNS[:2])]


def _unordered(root: Path, split: str) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in listed_images(root, split)}


def _stems(row: dict[str, str]) -> tuple[str, str]:
    return Path(row["source_image"]).stem, Path(row["target_image"]).stem


def _list_file(root: Path, split: str) -> Path:
    split = "test" if split in _PARTS_OF_TEST else {"train-all": "train"}.get(split, split)
    folders = (root / "image_pairs", root, root / MARKER, root / "pf-pascal_image_pairs")
    candidates = [folder / name for name in _LISTS[split] for folder in folders]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise DataError(
        f"{root}: the list of PF-Pascal {split} pairs is missing; put it at {candidates[0]} "
        "(run `simsc data download pfpascal`)"
    )


def _kept(root: Path, split: str) -> Callable[[frozenset[str]], bool]:
    """Whether a pair of a list, by its images in any order, belongs to a split."""
    if split not in _PARTS_OF_TEST:
        return lambda _: True
    trained = _unordered(root, "train")
    if split == "clean":
        return lambda stems: stems not in trained
    images = frozenset[str]().union(*trained)
    return lambda stems: not stems & images


class _Reader:
    """Reads each annotation once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.images = ImageFolder(root / MARKER)
        self._annotated: dict[tuple[str, str], Annotated] = {}

    def read(self, path: Path) -> list[Pair]:
        """The pairs of a list."""
        unique = unique_names()
        return [
            self._pair(row, f"{path}, line {number}", unique)
            for number, row in enumerate(read_csv(path, _COLUMNS), start=2)
        ]

    def annotated(self, category: str, stem: str) -> Annotated:
        """An image with its points, 0-based; absent ones are NaN."""
        key = category, stem
        if key not in self._annotated:
            path = self.root / MARKER / "Annotations" / category / f"{stem}.mat"
            content = read_mat(path, "kps")
            points = as_points(content["kps"], f"{path}: kps") - 1  # MATLAB counts from 1
            present = np.isfinite(points).all(axis=1)
            box = finite_box(content.get("bbox"), f"{path}: bbox")
            image = self.images.ref(self.root / MARKER / "JPEGImages" / f"{stem}.jpg")
            inside(points[present], image.size, f"{path}: kps")
            self._annotated[key] = Annotated(stem, category, image, points, present, None if box is None else box - 1)
        return self._annotated[key]

    def _pair(self, row: dict[str, str], where: str, unique: Callable[[str], str]) -> Pair:
        category = _category(row["class"], where)
        source, target = (self.annotated(category, stem) for stem in _stems(row))
        if len(source.points) != len(target.points):
            raise DataError(
                f"{where}: the two annotations have {len(source.points)} and {len(target.points)} key-points"
            )
        if row.get("XA"):
            source, target = _with_listed_points(row, source, target, where)
        flip = (row.get("flip") or "0").strip() in ("1", "1.0")
        if flip:
            source, target = source.mirrored(), target.mirrored()
        name = unique(f"{category}/{source.name}-{target.name}" + ("|flip" if flip else ""))
        pair = pair_of(source, target, name)
        return replace(pair, point_names=source.point_names) if row.get("XA") else pair


def _with_listed_points(
    row: dict[str, str], source: Annotated, target: Annotated, where: str
) -> tuple[Annotated, Annotated]:
    """Both objects with the row's own coordinates, named after the points that their files have in common."""
    points = [_listed_points(row, side, where) for side in "AB"]
    if len(points[0]) != len(points[1]):
        raise DataError(f"{where}: {len(points[0])} points in XA but {len(points[1])} in XB")
    present = np.isfinite(points[0]).all(axis=1) & np.isfinite(points[1]).all(axis=1)
    names = tuple(str(index) for index in common_points(source, target))
    names = names if len(names) == present.sum() else ()
    first, second = (
        replace(
            one,
            points=inside(listed[present], one.image.size, f"{where}, X{side}"),
            present=present[present],
            point_names=names,
        )
        for one, listed, side in ((source, points[0], "A"), (target, points[1], "B"))
    )
    return first, second


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
    except (ValueError, OverflowError):
        number = 0
    if not 1 <= number <= len(CATEGORIES):
        raise DataError(f"{where}: column 'class' must be 1 to {len(CATEGORIES)}, got '{text}'")
    return CATEGORIES[number - 1]
