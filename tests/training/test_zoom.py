from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsc.data.records import ImageRef, Pair
from simsc.training.config import Config
from simsc.training.sampler import Item, ListedPairs
from simsc.training.zoom import random_zoom

SIZE = (60, 80)


def ramp() -> np.ndarray:
    """An image whose red and green say where a pixel was: 3 x and 3 y."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    return np.stack([3 * x, 3 * y, 0 * x], axis=-1).astype(np.uint8)


@given(
    seed=st.integers(0, 10_000),
    strength=st.floats(0.01, 2),
    turn=st.sampled_from([0.0, 30.0, 180.0]),
    corners=st.lists(st.tuples(st.integers(2, 77), st.integers(2, 57)), min_size=2, max_size=2),
)
def test_what_a_point_marked_is_under_the_moved_point(seed: int, strength: float, turn: float, corners: list) -> None:
    points = np.array(corners, dtype=np.float64)
    extent = np.stack([points.min(axis=0), points.max(axis=0)])
    zoom = random_zoom(SIZE, extent, strength, np.random.default_rng(seed), turn)
    moved, pixels = zoom.points(points), zoom.pixels(ramp())
    assert pixels.shape == (*SIZE, 3)
    assert (moved >= -1e-6).all()
    assert (moved <= np.array([79, 59]) + 1e-6).all()
    inner = (moved > 1).all(axis=1) & (moved < [78, 58]).all(axis=1)
    x, y = moved[inner].round().astype(int).T
    expected = 3 * (points[inner] + (np.stack([x, y], axis=-1) - moved[inner]) @ np.linalg.inv(zoom.matrix).T)
    np.testing.assert_allclose(pixels[y, x, :2], expected, atol=1.5)


def test_no_strength_is_no_zoom() -> None:
    zoom = random_zoom(SIZE, np.array([[0, 0], [10, 10]]), 0.0, np.random.default_rng(0))
    np.testing.assert_array_equal(zoom.points(np.array([[3.0, 4.0]])), [[3.0, 4.0]])
    np.testing.assert_array_equal(zoom.pixels(ramp()), ramp())


def test_a_turn_is_a_rotation_of_up_to_its_degrees() -> None:
    extent = np.array([[40.0, 30.0], [42.0, 32.0]])
    angles = []
    for seed in range(200):
        matrix = random_zoom(SIZE, extent, 0.0, np.random.default_rng(seed), turn=20.0).matrix
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(2), atol=1e-9)
        angles.append(np.degrees(np.arctan2(matrix[1, 0], matrix[0, 0])))
    assert 19 < max(np.abs(angles)) <= 20
    assert abs(np.mean(angles)) < 3


def test_factors_spread_over_the_range() -> None:
    extent = np.array([[40.0, 30.0], [42.0, 32.0]])
    scales = [
        random_zoom(SIZE, extent, 0.5, np.random.default_rng(seed)).matrix.diagonal().prod() ** 0.5
        for seed in range(400)
    ]
    assert min(scales) == pytest.approx(1 / 1.5, abs=0.02)
    assert max(scales) == pytest.approx(1.5, abs=0.03)
    assert np.median(scales) == pytest.approx(1, abs=0.1)


@given(epoch=st.integers(0, 50))
def test_zoomed_pairs_keep_their_points_in_the_picture(epoch: int) -> None:
    points = np.array([[5.0, 5.0], [70.0, 50.0]])
    images = [ImageRef(key, SIZE, render=ramp) for key in "ab"]
    pair = Pair("p", "c", *images, points, points)
    (varied,) = ListedPairs([[pair]], Config(zoom=0.8, crop=0.3, flip=0.5, turn=40)).pairs([Item(0, 0)], epoch)
    for ref, found in ((varied.source, varied.source_points), (varied.target, varied.target_points)):
        assert ref.load().shape[:2] == ref.size
        assert (found >= -1e-6).all()
        assert (found <= np.array([ref.size[1], ref.size[0]]) - 1 + 1e-6).all()
