"""Matches of images whose true correspondence is known."""

from __future__ import annotations

import copy
import io
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import simsc
from simsc.errors import ConfigError, DataError
from simsc.matcher import Matcher, load
from simsc.models.model import SimSC
from simsc.models.trained import Trained, build_model

CENTRES = [(7.5, 7.5), (39.5, 23.5), (247.5, 135.5)]


@pytest.fixture(scope="module")
def matcher(color_model):
    return Matcher(color_model, device="cpu")


def test_a_flipped_image_is_matched_to_the_mirrored_places(matcher, mosaic):
    image = mosaic()
    found = matcher.match(image, image[:, ::-1], CENTRES)
    np.testing.assert_allclose(found.points, [(255 - x, y) for x, y in CENTRES], atol=1e-3)
    np.testing.assert_allclose(found.cycle_error, 0, atol=1e-3)
    assert (found.confidence > 0.99).all()
    assert found.matched.all()
    assert found.temperature == pytest.approx(0.005)


def test_points_are_in_pixels_of_the_images_as_shown(matcher, mosaic):
    image = mosaic()
    large = np.asarray(Image.fromarray(image).resize((768, 512), Image.Resampling.NEAREST))
    found = matcher.match(large, image, [(23.0, 15.5)])  # the centre of a cell of 48x32 pixels
    np.testing.assert_allclose(found.points, [(7.5, 7.5)], atol=0.2)
    assert (found.source_size, found.target_size) == ((512, 768), (256, 256))


def test_aspect_is_kept_on_demand(color_model, mosaic):
    image = mosaic(8, 16)
    encoded = Matcher(color_model, size=256, keep_aspect=True, device="cpu").encode(image)
    assert encoded.features.map_size == (8, 16)
    assert Matcher(color_model, size=256, device="cpu").encode(image).features.map_size == (16, 16)


def test_an_encoded_image_gives_the_same_as_the_image(matcher, mosaic):
    source, target = mosaic(), mosaic()[::-1]
    direct = matcher.match(source, target, CENTRES)
    encoded = matcher.match(matcher.encode(source), matcher.encode(target), CENTRES)
    np.testing.assert_allclose(direct.points, encoded.points, atol=1e-4)


def test_many_targets_answer_in_their_order(color_model, mosaic):
    image = mosaic()
    shifts = [0, 3, 5, 2, 7]
    targets = [np.roll(image, 16 * shift, axis=1) for shift in shifts]
    targets[2] = np.pad(targets[2], ((0, 0), (0, 256), (0, 0)))  # another size in the same batch
    matcher = Matcher(color_model, size=512, keep_aspect=True, device="cpu")
    found = list(matcher.match_many(image, iter(targets), [(7.5, 7.5)], batch_size=3))
    np.testing.assert_allclose([m.points[0, 0] for m in found], [16 * s + 7.5 for s in shifts], atol=8)


def test_the_flipped_ensemble_agrees_where_both_views_agree(color_model, mosaic):
    image = mosaic()
    found = Matcher(color_model, flip=True, device="cpu").match(image, image[:, ::-1], CENTRES)
    np.testing.assert_allclose(found.points, [(255 - x, y) for x, y in CENTRES], atol=1e-3)


def test_images_encoded_with_and_without_flip_do_not_mix(color_model, matcher, mosaic):
    other = Matcher(color_model, flip=True, device="cpu")
    with pytest.raises(ConfigError, match="encoded with flip"):
        other.match(matcher.encode(mosaic()), mosaic(), CENTRES)


def test_heatmaps_are_probabilities_with_their_peak_at_the_match(matcher, mosaic):
    image = mosaic()
    found = matcher.match(image, image, CENTRES)
    assert found.heatmaps.shape == (3, 16, 16)
    np.testing.assert_allclose(found.heatmaps.sum(axis=(1, 2)), 1, rtol=1e-5)
    shown = found.heatmap_image(1)
    assert shown.shape == (256, 256)
    peak_y, peak_x = np.unravel_index(shown.argmax(), shown.shape)
    np.testing.assert_allclose((peak_x, peak_y), CENTRES[1], atol=0.5)


def test_no_points_give_an_empty_result(matcher, mosaic):
    found = matcher.match(mosaic(), mosaic(), [])
    assert found.points.shape == (0, 2)
    assert found.heatmaps.shape == (0, 16, 16)
    assert found.to_dict()["matches"] == []


def test_a_point_without_counterpart_is_reported_as_unmatched(matcher, mosaic):
    source = mosaic(seed=1)
    target = source.copy()
    target[:16, :16] = mosaic(seed=2)[:16, :16]  # the first cell is missing in the target
    found = matcher.match(source, target, CENTRES, max_cycle=4)
    assert found.matched.tolist() == [False, True, True]
    strict = matcher.match(source, target, CENTRES, min_confidence=1.1)
    assert not strict.matched.any()


@pytest.mark.parametrize("point", [(256.0, 3.0), (3.0, -1.0), (float("nan"), 0.0)])
def test_a_point_outside_is_refused_by_name(matcher, mosaic, point):
    with pytest.raises(DataError, match=r"point 2 at .* outside of the source image of 256x256"):
        matcher.match(mosaic(), mosaic(), [(1, 1), point])


@pytest.mark.parametrize("points", [[(1, 2, 3)], [1, 2], "abc"])
def test_points_of_another_shape_are_refused(matcher, mosaic, points):
    with pytest.raises(DataError, match="points"):
        matcher.match(mosaic(), mosaic(), points)


def test_points_may_be_a_tensor(matcher, mosaic):
    found = matcher.match(mosaic(), mosaic(), torch.tensor(CENTRES))
    np.testing.assert_allclose(found.points, CENTRES, atol=1e-3)


def _encoded(image: Image.Image, kind: str, **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _odd_images() -> dict[str, object]:
    grey = Image.fromarray(np.arange(40 * 60, dtype=np.uint8).reshape(40, 60))
    exif = Image.Exif()
    exif[0x0112] = 6
    return {
        "1x1": np.full((1, 1, 3), 7, np.uint8),
        "10000x50": np.zeros((50, 10000, 3), np.uint8),
        "grey": grey,
        "cmyk": _encoded(grey.convert("CMYK"), "JPEG"),
        "16-bit": _encoded(Image.fromarray(np.arange(40 * 60, dtype=np.uint16).reshape(40, 60)), "PNG"),
        "gif": _encoded(grey, "GIF", save_all=True, append_images=[grey.rotate(90)]),
        "exif": _encoded(grey.convert("RGB"), "JPEG", exif=exif),
        "tensor": torch.rand(3, 33, 65),
    }


@pytest.mark.parametrize("keep_aspect", [False, True])
@pytest.mark.parametrize("kind", list(_odd_images()))
def test_odd_images_are_matched_inside_of_the_target(color_model, mosaic, kind, keep_aspect):
    odd = _odd_images()[kind]
    matcher = Matcher(color_model, keep_aspect=keep_aspect, device="cpu")
    height, width = matcher.encode(odd).size
    assert kind != "exif" or (height, width) == (60, 40)
    for source, target in ((odd, mosaic()), (mosaic(), odd)):
        found = matcher.match(source, target, [(0, 0)])
        limit = np.array(found.target_size)[::-1]
        assert np.isfinite(found.points).all()
        assert (found.points >= -0.5).all()
        assert (found.points <= limit - 0.5).all()
        assert matcher.dense(source, target).points.shape == (*found.target_size, 2)


def test_a_corrupt_image_is_refused_with_a_sentence(matcher, mosaic):
    with pytest.raises(DataError, match="image"):
        matcher.match(mosaic(), b"no image at all", [(0, 0)])


def test_the_model_given_is_left_untouched():
    model = build_model({"backbone": "resnet50", "temperature": "mlp"}, weights=None)
    keys = set(model.state_dict())
    matcher = Matcher(model, device="cpu", size=64)
    assert set(model.state_dict()) == keys
    images = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        slow, fast = model.eval().encode(images), matcher.model.encode(images)
    torch.testing.assert_close(slow.maps, fast.maps, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"localizer": "agrmax"}, "argmax"), ({"runtime": "jax"}, "onnx"), ({"size": 3}, "size"), ({"device": "x"}, "x")],
)
def test_impossible_options_are_refused(color_model, options, message):
    with pytest.raises(ConfigError, match=message):
        load(color_model, **options)


def test_the_package_imports_without_torch():
    code = "import sys, simsc; assert 'torch' not in sys.modules; assert 'load' in dir(simsc)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError):
        _ = simsc.no_such_name


def test_beta_eval_stands_for_a_temperature_that_was_not_learned(color_model, mosaic):
    image, flat = mosaic(), copy.deepcopy(color_model)
    flat.set_temperature("fixed:1")
    expected = Matcher(color_model, device="cpu").match(image, image[::-1], CENTRES)
    found = Matcher(flat, beta_eval=0.005, device="cpu").match(image, image[::-1], CENTRES)
    np.testing.assert_allclose(found.points, expected.points, atol=1e-3)
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-4)
    assert found.temperature == pytest.approx(0.005)
    with pytest.raises(ConfigError, match="beta_eval = 0"):
        Matcher(flat, beta_eval=0.0)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A model that was trained for another localiser, evaluation temperature and image size than the usual ones."""
    path = tmp_path_factory.mktemp("stored") / "m.safetensors"
    use = {"beta_eval": 0.02, "localizer": "argmax", "image_size": 128}
    config = {"backbone": "resnet50.v1_in1k", "weights": "random", "temperature": "fixed:1", **use}
    Trained.begin(config).save(path)
    return path


def test_a_model_is_used_as_it_was_trained(stored, mosaic):
    matcher = load(stored, device="cpu")
    assert (matcher.beta_eval, matcher.localizer, matcher.view.side) == (0.02, "argmax", 128)
    image = mosaic()
    assert matcher.encode(image).features.map_size == (8, 8)
    found = matcher.match(image, image, CENTRES)
    np.testing.assert_allclose((found.points + 0.5) % 32, 16, atol=1e-3)  # centres of cells
    chosen = load(stored, device="cpu", beta_eval=0.5, localizer="soft-argmax", size=64)
    assert (chosen.beta_eval, chosen.localizer, chosen.view.side) == (0.5, "soft-argmax", 64)


def test_a_model_that_was_just_opened_is_not_copied(stored, monkeypatch):
    monkeypatch.setattr(SimSC, "__deepcopy__", lambda *_: pytest.fail("copied"), raising=False)
    assert load(stored, device="cpu").model.prepared


def test_options_of_one_call_leave_the_matcher_as_it_was(color_model, mosaic):
    source, target = mosaic(), mosaic(seed=1)
    matcher = Matcher(color_model, beta_eval=2.0, device="cpu")
    before = matcher.match(source, target, CENTRES)
    other = copy.deepcopy(color_model)
    other.set_temperature("fixed:0.3")
    expected = Matcher(other, localizer="soft-argmax", device="cpu")
    options = {"localizer": "soft-argmax", "temperature": 0.3}
    found = matcher.match(source, target, CENTRES, **options)
    wanted = expected.match(source, target, CENTRES)
    np.testing.assert_allclose(found.points, wanted.points, atol=1e-3)
    np.testing.assert_allclose(found.confidence, wanted.confidence, atol=1e-5)
    np.testing.assert_allclose(found.cycle_error, wanted.cycle_error, atol=1e-3)
    assert found.temperature == 0.3
    (many,) = matcher.match_many(source, [target], CENTRES, **options)
    np.testing.assert_allclose(many.points, found.points, atol=1e-3)
    flow, flow_wanted = matcher.dense(source, target, **options), expected.dense(source, target)
    np.testing.assert_allclose(flow.points, flow_wanted.points, atol=1e-2)
    assert flow.temperature == pytest.approx(0.3)
    np.testing.assert_array_equal(matcher.match(source, target, CENTRES).points, before.points)
    for wrong in ({"localizer": "agrmax"}, {"temperature": 0.0}):
        with pytest.raises(ConfigError, match=r"did you mean 'argmax'|temperature = 0.0 is not allowed"):
            matcher.match(source, target, CENTRES, **wrong)


def test_a_fixed_temperature_reaches_the_mirrored_pair_too(color_model, mosaic):
    other = copy.deepcopy(color_model)
    other.set_temperature("fixed:0.3")
    pair = mosaic(), mosaic(seed=1)
    found = Matcher(color_model, flip=True, device="cpu").match(*pair, CENTRES, temperature=0.3)
    expected = Matcher(other, flip=True, device="cpu").match(*pair, CENTRES)
    np.testing.assert_allclose(found.heatmaps, expected.heatmaps, atol=1e-5)
