"""AP-10K as a correspondence benchmark, in the layout of GeoAware-SC.

``PairAnnotation/<split>/<source>-<target>:<category>.json`` names two files below
``ImageAnnotation/<family>/<species>/``, COCO-style: ``keypoints`` as 17 times x, y, visibility, and ``bbox`` as
left, top, width, height. Images are at the same place below ``JPEGImages``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from simsc.data.catalog import Dataset, DatasetInfo
from simsc.data.readers.building import ImageFolder, inside
from simsc.data.readers.coco import box_of, keypoints_of
from simsc.data.records import Annotated, Pair, pair_of
from simsc.errors import DataError
from simsc.reading import below, read_json, typed_field

_FOLDERS = {
    "train": "trn",
    "val": "val",
    "test": "test",
    "val-cross-species": "val_cross_species",
    "test-cross-species": "test_cross_species",
    "val-cross-family": "val_cross_family",
    "test-cross-family": "test_cross_family",
}
POINT_NAMES = (
    *("left eye", "right eye", "nose", "neck", "root of tail", "left shoulder", "left elbow", "left front paw"),
    *("right shoulder", "right elbow", "right front paw", "left hip", "left knee", "left back paw"),
    *("right hip", "right knee", "right back paw"),
)


class AP10K(Dataset):
    """Animals of many species; pairs within a species, across species and across families."""

    info = DatasetInfo(
        name="ap10k",
        title="AP-10K pairs",
        splits=(
            *("train", "val", "test", "val-cross-species", "test-cross-species"),
            *("val-cross-family", "test-cross-family"),
        ),
        threshold="bbox",
        folders=("ap10k", "ap-10k"),
        markers=("PairAnnotation", "ImageAnnotation"),
        licence="see the AP-10K repository",
        citation="Yu et al.: AP-10K: A Benchmark for Animal Pose Estimation in the Wild. NeurIPS 2021 (images); "
        "Zhang et al.: Telling Left from Right. CVPR 2024 (pairs)",
        homepage="https://github.com/AlexTheBad/AP-10K",
        by_hand="download the AP-10K archive linked on https://github.com/AlexTheBad/AP-10K (Google Drive), run the "
        "notebook prepare_ap10k.ipynb of https://github.com/Junyi42/GeoAware-SC on it, and give the resulting "
        "folder ap-10k as --root",
    )
    listed = True

    def objects(self, root: Path, split: str) -> list[Annotated]:
        """The animals of a split's pairs."""
        reader, found = _Reader(root), dict[tuple[str, str], Annotated]()
        for path in _pair_files(root, split):
            for one in reader.ends(path):
                found.setdefault((one.category, one.image.key), one)
        return list(found.values())

    def pairs(self, root: Path, split: str) -> list[Pair]:
        """All pairs of a split, in the order of their file names."""
        reader = _Reader(root)
        return [pair_of(*reader.ends(path)) for path in _pair_files(root, split)]


AP10K_PAIRS = AP10K()


def _pair_files(root: Path, split: str) -> list[Path]:
    folder = root / "PairAnnotation" / _FOLDERS[split]
    if not folder.is_dir():
        raise DataError(
            f"{folder}: the pairs of AP-10K are missing; they are made by the notebook prepare_ap10k.ipynb "
            "of the GeoAware-SC repository and are not part of the AP-10K archive"
        )
    return sorted(folder.glob("*.json"))


class _Reader:
    """Reads each annotation once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.images = ImageFolder(root)
        self._objects: dict[str, Annotated] = {}

    def ends(self, path: Path) -> tuple[Annotated, Annotated]:
        """Source and target of a pair's file."""
        content = read_json(path)
        category = path.stem.partition(":")[2]
        if not category:
            raise DataError(f"{path}: the file name must end in ':<category>.json'")
        source, target = (
            replace(self._object(content, field, path), category=category)
            for field in ("src_json_path", "trg_json_path")
        )
        return source, target

    def _object(self, content: Any, field: str, path: Path) -> Annotated:
        listed = typed_field(content, field, str, path)
        # The stored paths begin where the pairs were made; only the part from ImageAnnotation on matters.
        place = PurePosixPath(*PurePosixPath(listed.replace("\\", "/")).parts[-3:])
        if str(place) not in self._objects:
            below(self.root, str(place), f"{path}: {field}")
            self._objects[str(place)] = self._read(place)
        return self._objects[str(place)]

    def _read(self, place: PurePosixPath) -> Annotated:
        path = self.root / "ImageAnnotation" / place
        content = read_json(path)
        points, present = keypoints_of(content, len(POINT_NAMES), str(path))
        image = self.images.ref((self.root / "JPEGImages" / place).with_suffix(".jpg"))
        inside(points[present], image.size, f"{path}: keypoints")
        species = place.parent.name
        return Annotated(place.stem, species, image, points, present, box_of(content, str(path)), POINT_NAMES)
