"""Opposite viewpoints: the mirror image of the source, where it suits the target better."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from simsc.errors import ConfigError
from simsc.matcher import Matcher
from simsc.matching.mirror import CELLS, mutual_evidence, suits_better

CENTRES = [(7.5, 7.5), (39.5, 23.5), (247.5, 135.5)]
MIRRORED = [(255 - x, y) for x, y in CENTRES]


@pytest.fixture(scope="module")
def matcher(sided_model):
    return Matcher(sided_model, device="cpu")


@pytest.fixture(scope="module")
def image():
    """Cells of 16x16 pixels whose halves differ."""
    colors = np.random.default_rng(3).integers(0, 256, (16, 32, 3), dtype=np.uint8)
    return colors.repeat(16, axis=0).repeat(8, axis=1)


def test_the_mirror_is_used_where_it_suits_better_and_only_there(matcher, image):
    same = matcher.match(image, image, CENTRES, mirror="auto")
    opposite = matcher.match(image, image[:, ::-1], CENTRES, mirror="auto")
    assert (same.mirrored, opposite.mirrored) == (False, True)
    np.testing.assert_allclose(same.points, CENTRES, atol=1e-3)
    np.testing.assert_allclose(opposite.points, MIRRORED, atol=1e-3)
    np.testing.assert_allclose(opposite.source_points, CENTRES)
    np.testing.assert_allclose(opposite.cycle_error, 0, atol=1e-3)


def test_without_a_mirror_opposite_views_do_not_match(matcher, image):
    found = matcher.match(image, image[:, ::-1], CENTRES)
    assert not found.mirrored
    assert np.linalg.norm(found.points - MIRRORED, axis=1).max() > 16


def test_yes_asks_for_the_mirror_image_whatever_the_pair_says(matcher, image):
    found = matcher.match(image, image, CENTRES, mirror="yes")
    flipped = matcher.match(image[:, ::-1], image, MIRRORED)
    assert found.mirrored
    np.testing.assert_allclose(found.points, flipped.points, atol=1e-3)
    np.testing.assert_allclose(found.cycle_error, flipped.cycle_error, atol=1e-3)
    np.testing.assert_allclose(found.heatmaps, flipped.heatmaps, atol=1e-5)


def test_sizes_as_shown_are_kept(matcher, image):
    large = np.asarray(Image.fromarray(image).resize((768, 512), Image.Resampling.NEAREST))
    asked = np.array([(23.0, 15.5), (600.0, 400.0)])
    found = matcher.match(large, image, asked, mirror="yes")
    flipped = matcher.match(large[:, ::-1], image, [(767 - x, y) for x, y in asked])
    np.testing.assert_allclose(found.points, flipped.points, atol=1e-3)
    np.testing.assert_allclose(found.cycle_error, flipped.cycle_error, atol=1e-3)


def test_an_encoded_source_keeps_its_mirror_image(matcher, image):
    encoded = matcher.encode(image, mirror=True)
    found = list(matcher.match_many(encoded, [image, image[:, ::-1]], CENTRES, mirror="auto"))
    assert [each.mirrored for each in found] == [False, True]
    assert not matcher.match(encoded, encoded, CENTRES).mirrored  # no flipped ensemble by accident
    with pytest.raises(ConfigError, match="mirror=True"):
        matcher.match(matcher.encode(image), image, CENTRES, mirror="auto")


def test_a_matcher_of_many_targets_encodes_the_source_itself(matcher, image):
    found = list(matcher.match_many(image, [image[:, ::-1]], CENTRES, mirror="yes"))
    np.testing.assert_allclose(found[0].points, MIRRORED, atol=1e-3)


def test_the_ensemble_and_the_mirror_go_together(sided_model, image):
    both = Matcher(sided_model, flip=True, device="cpu").match(image, image[:, ::-1], CENTRES, mirror="auto")
    assert both.mirrored
    np.testing.assert_allclose(both.points, MIRRORED, atol=1e-3)


def test_a_dense_match_takes_the_mirror_too(matcher, image):
    flow = matcher.dense(image, image[:, ::-1], mirror="auto")
    assert flow.mirrored
    np.testing.assert_allclose(flow.transfer_points(CENTRES), MIRRORED, atol=1e-2)
    rows, columns = np.mgrid[8:248, 8:248]
    np.testing.assert_allclose(flow.points[8:248, 8:248, 0], 255 - columns, atol=1e-2)
    np.testing.assert_allclose(flow.points[8:248, 8:248, 1], rows, atol=1e-2)
    assert flow.cycle_mask.all()


def test_results_say_that_the_mirror_was_used(matcher, image):
    assert matcher.match(image, image, CENTRES, mirror="yes").to_dict()["mirrored"] is True
    assert matcher.match(image, image, CENTRES).to_dict()["mirrored"] is False


def test_a_misspelt_mirror_is_refused(matcher, image):
    for ask in (matcher.match, matcher.match_many):
        with pytest.raises(ConfigError, match=r"mirror.*no.*auto.*yes"):
            list(ask(image, [image] if ask == matcher.match_many else image, CENTRES, mirror="maybe"))


def test_evidence_counts_cells_that_name_one_another():
    maps = torch.eye(6).reshape(6, 2, 3)
    assert mutual_evidence(maps, maps) == pytest.approx(6)
    assert mutual_evidence(maps, -maps) == pytest.approx(0)
    assert mutual_evidence(maps, 5 * maps) == pytest.approx(6)
    one_sided = maps.clone()
    one_sided[:, :, 1:] = maps[:, :, :1]  # three cells say the same: only one of them is answered
    assert mutual_evidence(one_sided, maps) == pytest.approx(2)
    assert suits_better(one_sided, maps, maps)
    assert not suits_better(maps, maps, maps)


def test_evidence_of_fine_maps_is_that_of_coarse_ones():
    coarse = torch.randn(32, CELLS, CELLS, generator=torch.Generator().manual_seed(0))
    fine = coarse.repeat_interleave(2, dim=1).repeat_interleave(2, dim=2)
    assert mutual_evidence(fine, coarse) == pytest.approx(mutual_evidence(coarse, coarse), rel=1e-4)
