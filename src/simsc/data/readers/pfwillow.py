"""PF-Willow: ``PF-dataset/<sub-class>/<image>.png``, 10 key-points each, 1-based on disk.

The list of pairs is ``test_pairs.csv``. Where it is missing, all ordered pairs within each sub-class are formed
from the ``.mat`` files: the same 900 pairs.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np

from simsc.data.readers.building import ImageFolder, Side, make_pair, unique_names
from simsc.data.readers.reading import as_points, read_csv, read_mat
from simsc.data.records import Pair
from simsc.errors import DataError

MARKER = "PF-dataset"
KEYPOINTS = 10
_NAMES = tuple(str(index) for index in range(KEYPOINTS))
_COLUMNS = tuple(f"{axis}{side}{index + 1}" for side in "AB" for axis in "XY" for index in range(KEYPOINTS))


def read_pairs(root: Path, split: str) -> list[Pair]:  # noqa: ARG001  (there is only the test split)
    """The 900 pairs."""
    images = ImageFolder(root)
    for name in ("test_pairs.csv", "test_pairs_pf.csv"):
        if (root / name).is_file():
            return _listed_pairs(root / name, images)
    return _all_pairs(root, images)


def _listed_pairs(path: Path, images: ImageFolder) -> list[Pair]:
    unique = unique_names()
    pairs = []
    for number, row in enumerate(read_csv(path, ("imageA", "imageB", *_COLUMNS)), start=2):
        source, target = (
            Side(images.ref(_image_file(images.root, row[f"image{side}"])), _row_points(row, side, path, number))
            for side in "AB"
        )
        pairs.append(_pair(source, target, unique(_name(source, target))))
    return pairs


def _all_pairs(root: Path, images: ImageFolder) -> list[Pair]:
    pairs = []
    for folder in sorted(path for path in (root / MARKER).iterdir() if path.is_dir()):
        sides = [_annotated(path, images) for path in sorted(folder.glob("*.png"))]
        pairs += [_pair(source, target, _name(source, target)) for source, target in permutations(sides, 2)]
    return pairs


def _annotated(path: Path, images: ImageFolder) -> Side:
    annotation = path.with_suffix(".mat")
    values = read_mat(annotation, "pts_coord")["pts_coord"]
    points = as_points(np.asarray(values).T, f"{annotation}: pts_coord transposed")
    if len(points) != KEYPOINTS:
        raise DataError(f"{annotation}: pts_coord must hold {KEYPOINTS} points, got {len(points)}")
    return Side(images.ref(path), points - 1)


def _pair(source: Side, target: Side, name: str) -> Pair:
    category = Path(source.image.key).parent.name
    return make_pair(name, category, source, target, _NAMES)


def _name(source: Side, target: Side) -> str:
    first, second = Path(source.image.key), Path(target.image.key)
    return f"{first.parent.name}/{first.name}-{second.name}"


def _image_file(root: Path, listed: str) -> Path:
    """Lists of other distributions have further folders in front of the last two parts."""
    return root.joinpath(MARKER, *Path(listed).parts[-2:])


def _row_points(row: dict[str, str], side: str, path: Path, number: int) -> np.ndarray:
    values = [[row[f"{axis}{side}{index + 1}"] for index in range(KEYPOINTS)] for axis in "XY"]
    points = as_points(np.asarray(values).T, f"{path}, line {number}: columns X{side}1 to Y{side}{KEYPOINTS}")
    return points - 1
