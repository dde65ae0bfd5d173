"""The renderer's geometry: where things are drawn, to a fraction of a pixel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.scenes import CATEGORIES, POINT_NAMES
from simsc.scenes.looks import PATTERNS, Look
from simsc.scenes.parts import Model
from simsc.scenes.raster import cover, depth_at, rasterise, shade
from simsc.scenes.scene import scene_geometry
from simsc.scenes.solids import ROOT, Camera, rotation

SIZE = (48, 64)
RED, BLUE = Look((1.0, 0.0, 0.0)), Look((0.0, 0.0, 1.0))


def _camera(x: float, y: float, scale: float = 10.0, yaw: float = 0.0, pitch: float = 0.0) -> Camera:
    return Camera(Camera.looking(yaw, pitch).view, scale, np.array([x, y, 0.0]))


def _centroid(weight: np.ndarray) -> tuple[float, float]:
    rows, columns = np.indices(weight.shape)
    return float((columns * weight).sum() / weight.sum()), float((rows * weight).sum() / weight.sum())


def _draw(model: Model, camera: Camera) -> np.ndarray:
    blocks = model.seen(camera)
    background = np.zeros((*SIZE, 3), dtype=np.uint8)
    return shade(blocks, rasterise(blocks, SIZE), background)


@given(x=st.floats(20, 40), y=st.floats(15, 30), shape=st.sampled_from(["ball", "cube", "limb"]))
@settings(max_examples=30, deadline=None)
def test_the_drawn_centre_is_the_key_point(x: float, y: float, shape: str) -> None:
    model = Model()
    if shape == "ball":
        model.ellipsoid(ROOT, (0, 0, 0), (0.8, 0.8, 0.8), RED)
    elif shape == "cube":
        model.block(ROOT, (0, 0, 0), (0.7, 0.5, 0.6), RED)
    else:
        model.limb(ROOT, (-0.5, 0, 0), (0.5, 0, 0), (0.4, 0.4), RED)
    camera = _camera(x, y)
    covered = (rasterise(model.seen(camera), SIZE)[1] >= 0).reshape(SIZE[0], 2, SIZE[1], 2).mean(axis=(1, 3))
    assert _centroid(covered) == pytest.approx(camera.project((0, 0, 0))[:2], abs=0.3)


def test_a_flat_disc_is_painted_at_its_key_point() -> None:
    model = Model()
    model.cylinder(ROOT, (0, 0, 0), (0.6, 0.6, 0.1), RED)
    picture = _draw(model, _camera(30.3, 20.8))
    assert _centroid(picture[..., 0].astype(float)) == pytest.approx((30.3, 20.8), abs=0.1)


@pytest.mark.parametrize(
    ("category", "name"),
    [(kind, f"{side}_eye") for kind in ("face", "bird", "quadruped") for side in ("left", "right")],
)
def test_pupils_are_drawn_at_the_eyes(category: str, name: str) -> None:
    # The pupil is the part whose centre is nearest to the key-point; only eyes seen nearly straight on count.
    checked = 0
    for index in range(20):
        geometry = scene_geometry(category, index, "train", 256)
        order = POINT_NAMES[category].index(name)
        if not geometry.visible[order]:
            continue
        centres = np.stack([block.centre[:2] for block in geometry.blocks])
        pupil = int(np.abs(centres - geometry.points[order]).sum(axis=1).argmin())
        x0, y0, x1, y1 = geometry.blocks[pupil].extent()
        index_buffer = rasterise([*geometry.blocks, *geometry.others], geometry.size)[1]
        shown = (index_buffer == pupil).reshape(geometry.size[0], 2, geometry.size[1], 2).mean(axis=(1, 3))
        if shown.sum() > 0.72 * (x1 - x0) * (y1 - y0):
            assert _centroid(shown) == pytest.approx(geometry.points[order], abs=0.3)
            checked += 1
    assert checked > 0


def test_the_nearer_of_two_parts_hides_the_other() -> None:
    model = Model()
    model.block(ROOT, (0, 0, 1.0), (0.5, 0.5, 0.1), RED)
    model.block(ROOT, (0, 0, -1.0), (0.5, 0.5, 0.1), BLUE)
    front, back = _draw(model, _camera(30, 20)), _draw(model, _camera(30, 20, yaw=180))
    assert front[20, 30, 0] > 0
    assert front[20, 30, 2] == 0
    assert back[20, 30, 2] > 0
    assert back[20, 30, 0] == 0


def test_depth_at_a_place_is_the_depth_that_is_drawn() -> None:
    geometry = scene_geometry("car", 2, "train", 256)
    buffer = rasterise(geometry.blocks, geometry.size)[0]
    rows, columns = np.nonzero(np.isfinite(buffer))
    chosen = slice(None, None, 997)
    x, y = (columns[chosen] + 0.5) / 2 - 0.5, (rows[chosen] + 0.5) / 2 - 0.5
    drawn = buffer[rows[chosen], columns[chosen]]
    close = np.abs(depth_at(geometry.blocks, x, y) - drawn) < 1e-2
    assert close.mean() > 0.98  # single samples on an edge may fall to either side in lower precision


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_part_stays_within_its_extent(category: str) -> None:
    geometry = scene_geometry(category, 0, "train", 256)
    for block in geometry.blocks:
        x0, y0, x1, y1 = block.extent()
        x, y = np.meshgrid(np.linspace(x0 - 9, x1 + 9, 41), np.linspace(y0 - 9, y1 + 9, 41))
        outside = (x < x0 - 1e-3) | (x > x1 + 1e-3) | (y < y0 - 1e-3) | (y > y1 + 1e-3)
        depth = block.depth(x - block.centre[0], y - block.centre[1])
        assert not np.isfinite(depth[outside]).any()


def test_an_empty_stage_stays_as_it_is() -> None:
    background = np.arange(48 * 64 * 3, dtype=np.uint32).reshape(48, 64, 3).astype(np.uint8)
    np.testing.assert_array_equal(shade([], rasterise([], SIZE), background), background)


def test_parts_beside_the_picture_are_left_out() -> None:
    model = Model()
    model.ellipsoid(ROOT, (0, 0, 0), (0.5, 0.5, 0.5), RED)
    for x, y in ((-50, 20), (500, 20), (30, -50), (30, 500)):
        assert not cover(rasterise(model.seen(_camera(x, y)), SIZE)[1], 0, 1).any()


def test_rotations_keep_lengths() -> None:
    turned = rotation(x=31, y=-77, z=123)
    np.testing.assert_allclose(turned @ turned.T, np.eye(3), atol=1e-9)


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_patterns_use_both_colours(pattern: str) -> None:
    points = np.stack(np.meshgrid(*[np.linspace(-1, 1, 12, dtype=np.float32)] * 3), axis=-1).reshape(-1, 3)
    colours = Look((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), pattern).albedo(points)
    assert len(np.unique(colours, axis=0)) == 2
