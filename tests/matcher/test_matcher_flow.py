"""Dense correspondence of images whose true flow is known."""

from __future__ import annotations

import numpy as np
import pytest

from simsc.errors import ConfigError, DataError
from simsc.matcher import Matcher


@pytest.fixture(scope="module")
def matcher(color_model):
    return Matcher(color_model, device="cpu")


def pixels(height: int, width: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y], axis=-1).astype(float)


def test_an_image_flows_to_itself(matcher, mosaic):
    image = mosaic()
    flow = matcher.dense(image, image)
    np.testing.assert_allclose(flow.points, pixels(256, 256), atol=1e-2)
    assert flow.cycle_mask.all()
    assert (flow.confidence > 0.99).all()
    assert (flow.warp(image) == image).mean() > 0.99


def test_a_flip_maps_cells_to_their_mirror_images(matcher, mosaic):
    image = mosaic()
    flow = matcher.dense(image, image[:, ::-1])
    middle = flow.points[8:-8, 8:-8]  # beyond the outermost centres a flow goes on as a translation
    expected = pixels(256, 256)
    expected[..., 0] = 255 - expected[..., 0]
    np.testing.assert_allclose(middle, expected[8:-8, 8:-8], atol=1e-2)


def test_a_shifted_crop_flows_by_its_shift(matcher, mosaic):
    scene = mosaic(20, 20)
    source, target = scene[:256, :256], scene[32:288, 48:304]
    flow = matcher.dense(source, target)
    seen = slice(0, 200)  # the part of the target that the source shows
    np.testing.assert_allclose(flow.points[seen, seen], pixels(200, 200) + np.array([48, 32]), atol=1e-2)
    assert flow.cycle_mask[seen, seen].all()
    assert flow.cycle_mask[232:].mean() < 0.5  # what the source does not show mostly finds no way back
    np.testing.assert_allclose(flow.transfer_points([(100, 90)]), [(52, 58)], atol=1e-2)


def test_a_mask_moves_with_its_object(matcher, mosaic):
    scene = mosaic(20, 20)
    source, target = scene[:256, :256], scene[32:288, 48:304]
    mask = np.zeros((256, 256), bool)
    mask[96:160, 112:192] = True
    expected = np.zeros((256, 256), bool)
    expected[64:128, 64:144] = True
    moved = matcher.dense(source, target).transfer_mask(mask, consistent=True)
    np.testing.assert_array_equal(moved[:200, :200], expected[:200, :200])


def test_images_of_different_size_and_aspect(matcher, mosaic):
    source = mosaic()
    target = source.repeat(2, axis=1)
    flow = matcher.dense(source, target)
    assert flow.points.shape == (256, 512, 2)
    expected = pixels(256, 512)
    expected[..., 0] = (expected[..., 0] + 0.5) / 2 - 0.5
    np.testing.assert_allclose(flow.points, expected.clip(0, 255), atol=1e-2)
    assert flow.warp(source).shape == (256, 512, 3)


def test_a_denser_grid_agrees_at_the_cells(matcher, mosaic):
    image = mosaic()
    flow = matcher.dense(image, image, density=3)
    assert flow.backward.shift.shape == (48, 48, 2)
    np.testing.assert_allclose(flow.backward.shift[1::3, 1::3], 0, atol=1e-2)


def test_smoothing_keeps_a_translation_and_repairs_a_stray_match(matcher, mosaic):
    image = mosaic()
    target = image.copy()
    target[112:128, 112:128] = image[:16, :16]  # one cell that looks like a far one
    rough, smooth = (matcher.dense(image, target, smooth=s) for s in (0.0, 1.5))
    middle = np.array([119, 119])
    assert np.linalg.norm(rough.points[119, 119] - middle) > 100
    assert np.linalg.norm(smooth.points[119, 119] - middle) < 12
    np.testing.assert_allclose(matcher.dense(image, image, smooth=2).points, pixels(256, 256), atol=1e-2)


def test_arrays_of_another_size_are_refused(matcher, mosaic):
    flow = matcher.dense(mosaic(), mosaic(8, 8))
    with pytest.raises(DataError, match="image"):
        flow.warp(mosaic(8, 8))
    with pytest.raises(DataError, match="mask"):
        flow.transfer_mask(np.zeros((256, 256, 3)))
    with pytest.raises(ConfigError, match="density"):
        matcher.dense(mosaic(), mosaic(), density=0)
