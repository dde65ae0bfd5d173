"""A part of a data set's photographs as a COCO file of one's own, as docs/fine-tune.md adapts to them.

python docs/results/adapting/photographs.py pfwillow test ::2 willow.json
python docs/results/adapting/photographs.py voc train :50 motorbikes.json motorbike
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from simsc.data.records import Annotated
from simsc.data.sources import load_objects
from simsc.files import write_json


def main(data: str, split: str, part: str, out: str, category: str | None = None) -> None:
    """Write the objects of a category, or all, that a slice as ``1::2`` picks."""
    chosen = [one for one in load_objects(data, None, split) if category in (None, one.category)]
    write_json(out, as_coco(chosen[slice(*(int(end) if end else None for end in part.split(":")))]))


def as_coco(objects: Sequence[Annotated]) -> dict[str, Any]:
    """Objects as a COCO document; photographs are named by their whole paths."""
    kinds = {one.category: len(one.points) for one in objects}
    return {
        "images": [
            {"id": number, "file_name": str(one.image.path), "height": one.image.size[0], "width": one.image.size[1]}
            for number, one in enumerate(objects, start=1)
        ],
        "annotations": [_annotation(number, one, list(kinds)) for number, one in enumerate(objects, start=1)],
        "categories": [
            {"id": number, "name": kind, "keypoints": [f"point {index + 1}" for index in range(kinds[kind])]}
            for number, kind in enumerate(kinds, start=1)
        ],
    }


def _annotation(number: int, one: Annotated, kinds: Sequence[str]) -> dict[str, Any]:
    seen = one.points[one.present]
    x0, y0, x1, y1 = np.concatenate([seen.min(axis=0), seen.max(axis=0)]) if one.box is None else one.box
    points = np.where(one.present[:, None], np.column_stack([one.points, np.full(len(one.points), 2)]), 0)
    return {
        "id": number,
        "image_id": number,
        "category_id": kinds.index(one.category) + 1,
        "bbox": [x0, y0, x1 - x0, y1 - y0],
        "keypoints": points.ravel().tolist(),
        "num_keypoints": len(seen),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
