"""A data set: folders ``<split>`` with images of a square of many colours, and where its quarters are."""

from pathlib import Path

import numpy as np
from PIL import Image

from simsc.data.catalog import Dataset, DatasetInfo
from simsc.data.records import Annotated, ImageRef

QUARTERS = ("upper_left", "upper_right", "lower_right", "lower_left")


class Squares(Dataset):
    """Reads annotated objects; pairs of them are drawn within each category by simsc."""

    info = DatasetInfo(
        name="squares",
        title="Squares of many colours",
        splits=("train", "test"),
        threshold="img",
        folders=("squares",),
        markers=("squares.md",),
        licence="Apache-2.0",
        by_hand="draw some",
    )

    def objects(self, root: Path, split: str) -> list[Annotated]:
        """One object for every image of a split."""
        return [_object(path) for path in sorted((root / split).glob("*.png"))]


def _object(path: Path) -> Annotated:
    with Image.open(path) as opened:
        size = (opened.height, opened.width)
    points = np.loadtxt(path.with_suffix(".txt"))  # a row x y for each quarter, nan nan where it is hidden
    image = ImageRef(key=f"squares/{path.parent.name}/{path.stem}", size=size, path=path)
    present = np.isfinite(points).all(axis=1)
    return Annotated(path.stem, "square", image, points, present, point_names=QUARTERS)


SQUARES = Squares()
