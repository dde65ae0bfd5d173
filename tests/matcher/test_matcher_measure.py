"""PCK of a matcher on pairs whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from simsc.matcher import Matcher
from simsc.matcher.measure import measure


class Photo:
    """Stands for an image of a data set."""

    def __init__(self, key: str, pixels: np.ndarray) -> None:
        self.key, self.pixels, self.size, self.loads = key, pixels, pixels.shape[:2], 0

    def load(self) -> np.ndarray:
        self.loads += 1
        return self.pixels


@pytest.mark.parametrize(("flip", "truth", "expected"), [(False, 7.5, 100), (True, 7.5, 100), (False, 200.0, 50)])
def test_pck_counts_correct_points_and_each_image_is_read_once(color_model, mosaic, flip, truth, expected):
    from types import SimpleNamespace

    photo = Photo("a", mosaic())
    points = np.array([[7.5, 7.5], [103.5, 39.5]])
    pair = SimpleNamespace(
        name="a-a", category="tile", source=photo, target=photo, source_points=points,
        target_points=np.array([[truth, 7.5], [103.5, 39.5]]), target_box=None,
    )  # fmt: skip
    seen: list[tuple[int, int]] = []
    matcher = Matcher(color_model, flip=flip, device="cpu")
    result = measure(matcher, [pair, pair], "img", progress=lambda *step: seen.append(step))
    assert result["per_image"][0.05] == pytest.approx(expected)
    assert seen == [(1, 2), (2, 2)]
    assert photo.loads == 1
