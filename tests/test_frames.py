from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from simsc.frames import PADDING, aspect_frame, padded_frame, square_frame

sides = st.integers(2, 400)
points = st.lists(st.tuples(st.floats(-20, 420), st.floats(-20, 420)), min_size=1, max_size=5)


@given(sides, sides, points, st.sampled_from(["square", "aspect", "pad"]), st.sampled_from(["center", "corner"]))
def test_points_come_back(height: int, width: int, xy, kind: str, convention: str) -> None:
    build = {"square": square_frame, "pad": padded_frame}.get(kind)
    size = (height, width)
    frame = build(size, 256, convention) if build else aspect_frame(size, 300, 16, convention)
    if convention == "corner" and 1 in frame.resized:
        return  # a single row has no extent to return from
    original = np.array(xy)
    np.testing.assert_allclose(frame.to_original(frame.to_network(original)), original, atol=1e-6)


def test_a_pixel_is_found_where_its_point_goes() -> None:
    pixels = np.zeros((40, 80, 3), dtype=np.uint8)
    pixels[10:12, 60:62] = 255
    frame = padded_frame((40, 80), 160)
    image = frame.to_input(pixels)
    assert image.shape == (3, 160, 160)
    assert image[0, 0, 0] == PADDING
    x, y = frame.to_network(np.array([60.5, 10.5]))
    inside = image[0, 40:120]
    brightest = np.unravel_index(int(inside.argmax()), inside.shape)
    assert abs(brightest[0] + 40 - y) <= 1
    assert abs(brightest[1] - x) <= 1


def test_points_are_not_changed_in_place() -> None:
    points = torch.tensor([[3.0, 4.0]])
    square_frame((10, 10), 10).to_network(points)
    assert points.tolist() == [[3.0, 4.0]]


def test_aspect_frames_have_sides_the_network_takes() -> None:
    assert aspect_frame((100, 200), None, 16).canvas == (96, 192)
    assert aspect_frame((3, 200), None, 16).canvas == (16, 192)
