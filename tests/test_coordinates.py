"""Conversions between coordinate frames: round trips, flips, borders, and agreement with grid_sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.coordinates import (
    Convention,
    aligns_corners,
    cell_grid,
    flip_boxes,
    flip_points,
    resize_boxes,
    resize_points,
    to_normalized,
)
from simsc.errors import ConfigError

quick = settings(deadline=None, max_examples=60)  # a busy machine must not fail a test
conventions = st.sampled_from(["center", "corner"])
sides = st.integers(2, 2000)
sizes = st.tuples(sides, sides)
small_sizes = st.tuples(st.integers(2, 24), st.integers(2, 24))
fractions = st.tuples(st.floats(0, 1), st.floats(0, 1))


def inside(size: tuple[int, int], fraction: tuple[float, float]) -> np.ndarray:
    """A point of the image, corners included."""
    return np.array([[fraction[0] * (size[1] - 1), fraction[1] * (size[0] - 1)]])


@quick
@given(sizes, sizes, fractions, conventions)
def test_resize_round_trip(
    old: tuple[int, int], new: tuple[int, int], at: tuple[float, float], convention: Convention
) -> None:
    points = inside(old, at)
    there = resize_points(points, old, new, convention)
    np.testing.assert_allclose(resize_points(there, new, old, convention), points, atol=1e-9 * max(old))


@quick
@given(sizes, sizes, sizes, fractions, conventions)
def test_resizing_twice_is_resizing_once(
    a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], at: tuple[float, float], convention: Convention
) -> None:
    points = inside(a, at)
    twice = resize_points(resize_points(points, a, b, convention), b, c, convention)
    np.testing.assert_allclose(twice, resize_points(points, a, c, convention), atol=1e-8 * max(c))


@quick
@given(sizes, fractions, conventions)
def test_same_size_is_identity(size: tuple[int, int], at: tuple[float, float], convention: Convention) -> None:
    points = inside(size, at)
    np.testing.assert_allclose(resize_points(points, size, size, convention), points, atol=1e-9 * max(size))


@quick
@given(sizes, sizes)
def test_borders(old: tuple[int, int], new: tuple[int, int]) -> None:
    """``center`` keeps the outer borders of the image, ``corner`` the centres of its corner pixels."""
    borders = np.array([[-0.5, -0.5], [old[1] - 0.5, old[0] - 0.5]])
    np.testing.assert_allclose(
        resize_points(borders, old, new), [[-0.5, -0.5], [new[1] - 0.5, new[0] - 0.5]], atol=1e-9 * max(new)
    )
    corners = np.array([[0.0, 0.0], [old[1] - 1, old[0] - 1]])
    np.testing.assert_allclose(
        resize_points(corners, old, new, "corner"), [[0, 0], [new[1] - 1, new[0] - 1]], atol=1e-9 * max(new)
    )


def test_conventions_differ_by_seven_and_a_half_pixels_at_the_border() -> None:
    cell = torch.zeros(1, 2)
    back = {name: resize_points(cell, (16, 16), (256, 256), name) for name in ("center", "corner")}
    assert (back["center"] - back["corner"]).tolist() == [[7.5, 7.5]]


@quick
@given(sizes, fractions)
def test_flip_is_an_involution(size: tuple[int, int], at: tuple[float, float]) -> None:
    points = inside(size, at)
    np.testing.assert_allclose(flip_points(flip_points(points, size[1]), size[1]), points, atol=1e-9 * size[1])


@quick
@given(sizes, sizes, fractions, conventions)
def test_flip_and_resize_commute(
    old: tuple[int, int], new: tuple[int, int], at: tuple[float, float], convention: Convention
) -> None:
    points = inside(old, at)
    one = resize_points(flip_points(points, old[1]), old, new, convention)
    other = flip_points(resize_points(points, old, new, convention), new[1])
    np.testing.assert_allclose(one, other, atol=1e-8 * max(new))


def test_flip_moves_the_pixel_it_names() -> None:
    pixels = np.zeros((3, 7))
    pixels[1, 2] = 1
    (x, y) = flip_points(np.array([2.0, 1.0]), 7)
    assert pixels[:, ::-1][int(y), int(x)] == 1


def test_tensor_and_array_agree() -> None:
    points = np.array([[3.25, 7.5], [0.0, 1.0]])
    for function in (lambda p: resize_points(p, (9, 11), (5, 4)), lambda p: flip_points(p, 11)):
        np.testing.assert_allclose(function(torch.from_numpy(points)).numpy(), function(points))


@quick
@given(small_sizes, fractions, conventions)
def test_grid_sample_reads_the_same_place(
    size: tuple[int, int], at: tuple[float, float], convention: Convention
) -> None:
    """A map that holds its own coordinates, sampled at a point, returns the point."""
    own = cell_grid(size, dtype=torch.float64).reshape(1, *size, 2).permute(0, 3, 1, 2)
    points = torch.from_numpy(inside(size, at))
    grid = to_normalized(points, size, convention).reshape(1, 1, -1, 2)
    found = F.grid_sample(own, grid, align_corners=aligns_corners(convention))
    torch.testing.assert_close(found.reshape(2, -1).T, points, atol=1e-9, rtol=0)


@quick
@given(st.integers(1, 12), st.integers(1, 12), st.integers(2, 6))
def test_center_is_the_convention_of_an_image_resize(height: int, width: int, factor: int) -> None:
    """Averaging blocks of pixels moves the block's centre of mass to the small pixel's centre."""
    big, small = (height * factor, width * factor), (height, width)
    own = cell_grid(big, dtype=torch.float64).reshape(1, *big, 2).permute(0, 3, 1, 2)
    means = F.avg_pool2d(own, factor).permute(0, 2, 3, 1).reshape(-1, 2)
    torch.testing.assert_close(resize_points(cell_grid(small, dtype=torch.float64), small, big), means)


@quick
@given(sizes, sizes, fractions, fractions)
def test_box_extents_scale_like_the_image(
    old: tuple[int, int], new: tuple[int, int], one: tuple[float, float], other: tuple[float, float]
) -> None:
    first, second = inside(old, one)[0], inside(old, other)[0]
    box = np.concatenate([np.minimum(first, second), np.maximum(first, second)])
    resized = resize_boxes(box, old, new)
    scale = np.array([new[1] / old[1], new[0] / old[0]])
    np.testing.assert_allclose(resized[2:] - resized[:2], (box[2:] - box[:2]) * scale, atol=1e-8 * max(new))
    np.testing.assert_allclose(flip_boxes(flip_boxes(box, old[1]), old[1]), box, atol=1e-9 * old[1])


def test_flipped_box_holds_the_flipped_points() -> None:
    box, points = np.array([2.0, 1.0, 5.0, 3.0]), np.array([[2.0, 1.0], [5.0, 3.0], [4.0, 2.0]])
    x0, y0, x1, y1 = flip_boxes(box, 10)
    flipped = flip_points(points, 10)
    assert (flipped.min(0).tolist(), flipped.max(0).tolist()) == ([x0, y0], [x1, y1])


def test_a_single_pixel_has_no_extent() -> None:
    points = torch.tensor([[0.0, 0.0]])
    assert torch.isfinite(resize_points(points, (1, 1), (4, 4), "corner")).all()
    assert torch.isfinite(to_normalized(points, (1, 1), "corner")).all()


def test_unknown_convention_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'center'"):
        resize_points(torch.zeros(1, 2), (2, 2), (4, 4), "centre")  # type: ignore[arg-type]
