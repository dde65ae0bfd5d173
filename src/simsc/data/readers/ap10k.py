"""AP-10K as a correspondence benchmark, in the layout of GeoAware-SC.

``PairAnnotation/<split>/<source>-<target>:<category>.json`` names two files below
``ImageAnnotation/<family>/<species>/``, COCO-style: ``keypoints`` as 17 times x, y, visibility, and ``bbox`` as
left, top, width, height. Images are at the same place below ``JPEGImages``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simsc.data.pairing import Annotated, pair_of
from simsc.data.readers.building import ImageFolder
from simsc.data.readers.coco import box_of, keypoints_of
from simsc.data.readers.reading import read_json, typed_field
from simsc.data.records import Pair
from simsc.errors import DataError

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


def read_pairs(root: Path, split: str) -> list[Pair]:
    """All pairs of a split, in the order of their file names."""
    folder = root / "PairAnnotation" / _FOLDERS[split]
    if not folder.is_dir():
        raise DataError(
            f"{folder}: the pairs of AP-10K are missing; they are made by the notebook prepare_ap10k.ipynb "
            "of the GeoAware-SC repository and are not part of the AP-10K archive"
        )
    reader = _Reader(root)
    return [reader.pair(path) for path in sorted(folder.glob("*.json"))]


class _Reader:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.images = ImageFolder(root)
        self._objects: dict[str, Annotated] = {}

    def pair(self, path: Path) -> Pair:
        content = read_json(path)
        category = path.stem.partition(":")[2]
        if not category:
            raise DataError(f"{path}: the file name must end in ':<category>.json'")
        source, target = (self._object(content, field, path) for field in ("src_json_path", "trg_json_path"))
        return pair_of(category, source, target, POINT_NAMES)

    def _object(self, content: Any, field: str, path: Path) -> Annotated:
        listed = typed_field(content, field, str, path)
        # The stored paths begin where the pairs were made; only the part from ImageAnnotation on matters.
        place = Path(*Path(listed.replace("\\", "/")).parts[-3:])
        if str(place) not in self._objects:
            self._objects[str(place)] = self._read(place)
        return self._objects[str(place)]

    def _read(self, place: Path) -> Annotated:
        path = self.root / "ImageAnnotation" / place
        content = read_json(path)
        points, present = keypoints_of(content, len(POINT_NAMES), str(path))
        image = self.images.ref((self.root / "JPEGImages" / place).with_suffix(".jpg"))
        return Annotated(place.stem, image, points, present, box_of(content, str(path)))
