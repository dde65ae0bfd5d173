"""Rendered scenes: the same everywhere, with annotations that agree with the pixels."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from simsc.errors import DataError
from simsc.scenes import CATEGORIES, POINT_NAMES, SPLITS, Scene, render_scene
from simsc.scenes.scene import scene_geometry

SCENES = [(category, index) for category in CATEGORIES for index in range(4)]


def _near(mask: np.ndarray, x: float, y: float, radius: int) -> bool:
    column, row = round(x), round(y)
    return bool(mask[max(0, row - radius) : row + radius + 1, max(0, column - radius) : column + radius + 1].any())


def _digest(scene: Scene) -> str:
    return hashlib.sha256(scene.image.tobytes() + scene.mask.tobytes() + scene.points.tobytes()).hexdigest()


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [render_scene(category, index, split="test") for category, index in SCENES]


def test_six_categories_have_8_to_15_named_points() -> None:
    assert set(CATEGORIES) >= {"quadruped", "bird", "car", "aeroplane", "chair", "face"}
    for names in POINT_NAMES.values():
        assert 8 <= len(names) <= 15
        assert len(set(names)) == len(names)


def test_fields_agree_in_shape(scenes: list[Scene]) -> None:
    for scene in scenes:
        height, width = scene.image.shape[:2]
        count = len(POINT_NAMES[scene.category])
        assert scene.image.dtype == np.uint8
        assert scene.mask.shape == (height, width)
        assert scene.points.shape == (count, 2)
        assert scene.visible.shape == (count,)
        assert max(height, width) == 256


def test_pictures_come_in_several_shapes() -> None:
    sizes = {scene_geometry("car", index, "train", 256).size for index in range(20)}
    assert len(sizes) >= 3
    assert any(height > width for height, width in sizes)
    assert any(height < width for height, width in sizes)


def test_a_fresh_process_draws_the_same_pixels() -> None:
    code = (
        "import hashlib; from simsc.scenes import render_scene; s = render_scene('bird', 7, split='val');"
        "print(hashlib.sha256(s.image.tobytes() + s.mask.tobytes() + s.points.tobytes()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.strip() == _digest(render_scene("bird", 7, split="val"))


@pytest.mark.parametrize(("category", "x", "y", "mean"), [
    ("quadruped", 186.2127, 113.4431, 102.70),
    ("bird", 103.1481, 163.4522, 184.35),
    ("car", 215.2828, 121.0672, 87.88),
    ("aeroplane", 36.7216, 158.9221, 173.60),
    ("chair", 215.1641, 177.2941, 113.23),
    ("face", 174.1105, 149.2135, 127.17),
])  # fmt: skip
def test_scenes_are_those_that_results_were_measured_on(category: str, x: float, y: float, mean: float) -> None:
    scene = render_scene(category, 0, split="test")
    np.testing.assert_allclose(scene.points[0], [x, y], atol=1e-4)
    assert scene.image.mean() == pytest.approx(mean, abs=0.01)


def test_visible_points_lie_on_the_object(scenes: list[Scene]) -> None:
    for scene in scenes:
        height, width = scene.mask.shape
        assert scene.visible.sum() >= 3
        for name, (x, y), visible in zip(scene.point_names, scene.points, scene.visible, strict=True):
            if visible:
                assert 0 <= x <= width - 1, name
                assert 0 <= y <= height - 1, name
                assert _near(scene.mask, x, y, 2), (scene.category, name)


def test_visible_points_are_not_covered_by_an_occluder() -> None:
    hidden = 0
    for category in CATEGORIES:
        for index in range(12):
            geometry = scene_geometry(category, index, "train", 256)
            if not geometry.others:
                continue
            scene = render_scene(category, index)
            for (x, y), visible in zip(scene.points, scene.visible, strict=True):
                assert not visible or _near(scene.mask, x, y, 1)
            hidden += int((~scene.visible).sum())
    assert hidden > 0


def test_boxes_contain_the_mask_and_fit_it(scenes: list[Scene]) -> None:
    for (_, index), scene in zip(SCENES, scenes, strict=True):
        rows, columns = np.nonzero(scene.mask)
        seen = np.array([columns.min(), rows.min(), columns.max(), rows.max()])
        assert (seen[:2] >= scene.box[:2] - 0.5).all()
        assert (seen[2:] <= scene.box[2:] + 0.5).all()
        if scene.category != "face" and not scene_geometry(scene.category, index, "test", 256).others:
            assert np.abs(seen - scene.box).max() < 2


def test_left_and_right_are_the_objects_own() -> None:
    # A face that looks at the viewer has its left eye on the picture's right.
    for index in range(10):
        scene = render_scene("face", index)
        left, right = (scene.point_names.index(f"{side}_eye") for side in ("left", "right"))
        if scene.visible[left] and scene.visible[right]:
            assert scene.points[left, 0] > scene.points[right, 0]


def test_objects_face_both_ways() -> None:
    facing = set()
    for index in range(12):
        geometry = scene_geometry("aeroplane", index, "train", 256)
        names = POINT_NAMES["aeroplane"]
        facing.add(geometry.points[names.index("nose"), 0] > geometry.points[names.index("tail_end"), 0])
    assert facing == {True, False}


def test_pixels_scale_with_size() -> None:
    small, large = (scene_geometry("chair", 1, "train", size) for size in (128, 256))
    np.testing.assert_allclose((small.points + 0.5) * 2, large.points + 0.5, atol=1e-6)


def test_splits_show_different_scenes() -> None:
    digests = [_digest(render_scene("chair", index, split=split)) for split in SPLITS for index in range(3)]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    ("category", "split", "index", "message"),
    [
        ("brid", "train", 0, "did you mean 'bird'"),
        ("bird", "trian", 0, "did you mean 'train'"),
        ("bird", "train", -1, "index >= 0"),
    ],
)
def test_wrong_requests_are_refused(category: str, split: str, index: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        render_scene(category, index, split=split)
