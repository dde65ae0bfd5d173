"""The example photographs and their annotations belong together."""

import json
from pathlib import Path

import pytest
from PIL import Image

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
pytestmark = pytest.mark.skipif(not PHOTOS.is_dir(), reason="the source distribution leaves the photographs out")


@pytest.fixture(params=["horse.json", "keypoints.json"])
def coco(request):
    return json.loads((PHOTOS / request.param).read_text(encoding="utf-8"))


def test_pictures_have_the_stated_size(coco):
    for image in coco["images"]:
        with Image.open(PHOTOS / image["file_name"]) as picture:
            assert picture.size == (image["width"], image["height"])


def test_points_lie_in_their_box(coco):
    names = {category["id"]: category["keypoints"] for category in coco["categories"]}
    for item in coco["annotations"]:
        left, top, width, height = item["bbox"]
        points = list(zip(*[iter(item["keypoints"])] * 3, strict=True))
        assert len(points) == len(names[item["category_id"]])
        seen = [(x, y) for x, y, visible in points if visible]
        assert item["num_keypoints"] == len(seen)
        assert all(left <= x <= left + width and top <= y <= top + height for x, y in seen)


def test_outlines_fill_about_the_stated_area(coco):
    for item in coco["annotations"]:
        area = 0.0
        for polygon in item["segmentation"]:
            ring = list(zip(polygon[::2], polygon[1::2], strict=True))
            area += sum(x * v - y * u for (x, y), (u, v) in zip(ring, ring[1:] + ring[:1], strict=True)) / 2
        assert item["area"] <= 1.02 * abs(area) <= 1.15 * item["area"]  # holes are filled, so a little more


def test_there_are_enough_to_measure_with_and_few_enough_to_clone():
    coco = json.loads((PHOTOS / "keypoints.json").read_text(encoding="utf-8"))
    kinds = [item["category_id"] for item in coco["annotations"]]
    assert kinds.count(1) >= 8
    assert kinds.count(2) >= 5
    assert sum(file.stat().st_size for file in PHOTOS.glob("*.jpg")) < 1.2e6
