"""PF-Willow: ``PF-dataset/<sub-class>/<image>.png``, 10 key-points each, 1-based on disk.

The list of pairs is ``test_pairs.csv``. Where it is missing, all ordered pairs within each sub-class are formed
from the ``.mat`` files: the same 900 pairs.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np

from simsc.data.catalog import Dataset, DatasetInfo, Source
from simsc.data.pairing import by_category
from simsc.data.readers.building import ImageFolder, inside, unique_names
from simsc.data.readers.pfpascal import PROPOSAL_FLOW
from simsc.data.readers.reading import as_points, read_mat
from simsc.data.records import Annotated, Pair, pair_of
from simsc.errors import DataError
from simsc.reading import below, read_csv

MARKER = "PF-dataset"
KEYPOINTS = 10
_COLUMNS = tuple(f"{axis}{side}{index + 1}" for side in "AB" for axis in "XY" for index in range(KEYPOINTS))


class PFWillow(Dataset):
    """100 images of ten sub-classes, all of them for testing."""

    info = DatasetInfo(
        name="pfwillow",
        title="PF-WILLOW",
        splits=("test",),
        threshold="kps",
        folders=("pfwillow", "pf-willow", "PF-WILLOW"),
        markers=("PF-dataset",),
        licence="academic use",
        citation="Ham, Cho, Schmid, Ponce: Proposal Flow. CVPR 2016",
        homepage=f"{PROPOSAL_FLOW}/",
        # The list of pairs is not fetched: it names all ordered pairs of a sub-class, which the reader forms itself.
        sources=(
            Source(
                f"{PROPOSAL_FLOW}/dataset/PF-dataset.zip",
                "PF-dataset.zip",
                missing="get PF-dataset.zip from the project page of Proposal Flow",
            ),
        ),
        counts={"test": (900, 9000)},
    )
    listed = True

    def objects(self, root: Path, split: str) -> list[Annotated]:  # noqa: ARG002 - there is only the test split
        """The images of all sub-classes."""
        images = ImageFolder(root)
        folders = sorted(path for path in (root / MARKER).iterdir() if path.is_dir())
        return [_annotated(path, images) for folder in folders for path in sorted(folder.glob("*.png"))]

    def pairs(self, root: Path, split: str) -> list[Pair]:
        """The 900 pairs."""
        for name in ("test_pairs.csv", "test_pairs_pf.csv"):
            if (root / name).is_file():
                return _listed_pairs(root / name, ImageFolder(root))
        members = by_category(self.objects(root, split)).values()
        return [pair_of(source, target) for group in members for source, target in permutations(group, 2)]


PFWILLOW = PFWillow()


def _listed_pairs(path: Path, images: ImageFolder) -> list[Pair]:
    unique = unique_names()
    pairs = []
    for number, row in enumerate(read_csv(path, ("imageA", "imageB", *_COLUMNS)), start=2):
        source, target = (
            _object(images, _image_file(images.root, row[f"image{side}"], path), _row_points(row, side, path, number))
            for side in "AB"
        )
        pairs.append(pair_of(source, target, unique(f"{source.category}/{source.name}-{target.name}")))
    return pairs


def _annotated(path: Path, images: ImageFolder) -> Annotated:
    annotation = path.with_suffix(".mat")
    values = read_mat(annotation, "pts_coord")["pts_coord"]
    points = as_points(np.asarray(values).T, f"{annotation}: pts_coord transposed")
    if len(points) != KEYPOINTS:
        raise DataError(f"{annotation}: pts_coord must hold {KEYPOINTS} points, got {len(points)}")
    return _object(images, path, points - 1)


def _object(images: ImageFolder, path: Path, points: np.ndarray) -> Annotated:
    image = images.ref(path)
    inside(points, image.size, str(path))
    return Annotated(path.stem, path.parent.name, image, points, np.ones(KEYPOINTS, dtype=bool))


def _image_file(root: Path, listed: str, path: Path) -> Path:
    """Lists of other distributions have further folders in front of the last two parts."""
    return below(root / MARKER, "/".join(Path(listed).parts[-2:]), path)


def _row_points(row: dict[str, str], side: str, path: Path, number: int) -> np.ndarray:
    values = [[row[f"{axis}{side}{index + 1}"] for index in range(KEYPOINTS)] for axis in "XY"]
    points = as_points(np.asarray(values).T, f"{path}, line {number}: columns X{side}1 to Y{side}{KEYPOINTS}")
    return points - 1
