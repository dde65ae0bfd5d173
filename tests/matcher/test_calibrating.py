from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simsc.data.records import Annotated, ImageRef
from simsc.errors import DataError
from simsc.matcher import Matcher
from simsc.matcher.calibrating import Examples, auc, collect, draw_pairs, fit, kept_at, quality, reliability
from simsc.models.calibration import Calibration
from simsc.models.trained import Trained


def made(count: int = 4000, seed: int = 0) -> Examples:
    """Matches whose first two signals say the truth in part, and whose others say nothing."""
    chance = np.random.default_rng(seed)
    signals = chance.normal(size=(count, 5))
    right = chance.random(count) < 1 / (1 + np.exp(-3 * signals[:, 0]))
    present = right | (chance.random(count) < 1 / (1 + np.exp(-2 * signals[:, 1])))
    return Examples(signals, right, present, chance.random(count), chance.random(count))


def test_a_fit_is_calibrated_on_other_examples_of_the_kind() -> None:
    result = quality(fit(made(seed=0)), made(seed=1))
    assert result.ece < 0.03
    assert result.auc_right > 0.85
    assert result.auc_right_peak == pytest.approx(0.5, abs=0.05)
    assert result.kept > result.kept_peak
    known = made(seed=1)
    confidence = fit(made(seed=0)).probabilities(known.signals)[0]
    assert result.auc_known == auc(confidence[known.present], known.right[known.present]) != result.auc_right
    assert sum(count for _, _, count in result.reliability) == result.points


def test_the_limits_keep_their_promise_on_the_examples() -> None:
    examples = made()
    calibration = fit(examples)
    right, present = calibration.probabilities(examples.signals)
    status = calibration.status(right, present)
    assert examples.right[status == "sure"].mean() >= 0.9
    assert (present[examples.present] < calibration.none).mean() == pytest.approx(0.1, abs=0.01)


def test_examples_of_one_kind_are_refused() -> None:
    examples = made()
    with pytest.raises(DataError, match="lack one kind"):
        fit(examples.where(examples.right))


def test_auc_counts_ties_half_and_equals_counting_pairs() -> None:
    chance = np.random.default_rng(0)
    score, truth = chance.integers(0, 5, 60).astype(float), chance.random(60) < 0.4
    slow = np.mean([(a > b) + 0.5 * (a == b) for a in score[truth] for b in score[~truth]])
    assert auc(score, truth) == pytest.approx(slow)
    assert np.isnan(auc(score, np.ones(60, dtype=bool)))


def test_what_is_kept_at_a_precision() -> None:
    score = np.arange(10, 0, -1.0)
    right = np.array([1, 1, 1, 1, 0, 1, 1, 1, 1, 1], dtype=bool)
    assert kept_at(score, right, 0.9) == 1.0
    assert kept_at(score, ~right, 0.9) == 0.0


def test_reliability_bins_hold_every_example_once() -> None:
    bins = reliability(np.array([0.0, 0.05, 0.5, 1.0]), np.array([False, True, True, True]), bins=10)
    assert bins == [(0.025, 0.5, 2), (0.5, 1.0, 1), (1.0, 1.0, 1)]


@pytest.fixture
def objects(mosaic) -> list[Annotated]:
    """Four images of the same cells in other places; the third point is missing in every second one."""
    image = mosaic(6, 6)
    found = []
    for number in range(4):
        shift = 16 * number
        pixels = np.roll(image, shift, axis=1)
        points = np.stack([(np.array([8, 24, 40]) + shift) % 96, [8, 40, 72]], axis=1) - 0.5
        present = np.array([True, True, number % 2 == 0])
        ref = ImageRef(f"{number}", (96, 96), render=lambda pixels=pixels: pixels)
        found.append(Annotated(f"{number}", "thing", ref, points.astype(float), present, np.array([0, 0, 95, 95])))
    return found


def test_examples_tell_right_matches_and_missing_points(color_model, objects) -> None:
    matcher = Matcher(color_model, size=96, device="cpu", localizer="argmax")
    examples = collect(matcher, [(objects[0], objects[1]), (objects[1], objects[2])])
    assert len(examples) == 3 + 2
    assert examples.present.tolist() == [True, True, False, True, True]
    assert examples.right.tolist() == examples.present.tolist()
    foreign = replace(objects[1], category="other")
    assert not collect(matcher, [(objects[0], foreign)]).present.any()


def test_pairs_are_drawn_by_the_seed_with_a_share_of_foreign_ones(objects) -> None:
    mixed = [
        *objects,
        *(replace(one, category="other", image=replace(one.image, key=one.image.key + "o")) for one in objects),
    ]
    pairs = draw_pairs(mixed, 200, seed=3, foreign=0.25)
    assert pairs == draw_pairs(mixed, 200, seed=3, foreign=0.25)
    assert np.mean([a.category != b.category for a, b in pairs]) == pytest.approx(0.25, abs=0.08)
    assert all(a.image.key != b.image.key for a, b in pairs)


def test_a_matcher_reports_what_its_calibration_says(color_model, mosaic) -> None:
    always = Calibration((0.0,) * 5, (1.0,) * 5, (2.0, *(0.0,) * 20), (-2.0, *(0.0,) * 20), 0.95, 0.5)
    trained = Trained.of(color_model).described(calibration=always)
    image = mosaic(6, 6)
    result = Matcher(trained, size=96, device="cpu").match(image, image, [(8, 8), (40, 40)])
    np.testing.assert_allclose(result.confidence, 1 / (1 + np.exp(-2.0)))
    assert result.status.tolist() == ["none", "none"]
    assert not result.matched.any()
    plain = Matcher(color_model, size=96, device="cpu").match(image, image, [(8, 8), (40, 40)])
    assert plain.status.tolist() == ["unsure", "unsure"]
    np.testing.assert_array_equal(plain.confidence, plain.peak)
    assert plain.to_dict()["matches"][0]["status"] == "unsure"


def test_another_temperature_is_for_the_eye_only(color_model, mosaic) -> None:
    image = mosaic(6, 6)
    matcher = Matcher(color_model, size=96, device="cpu", localizer="argmax")
    own, other = (matcher.match(image, image, [(8, 8)], temperature=value) for value in (None, 0.5))
    np.testing.assert_allclose(own.signals, other.signals, atol=1e-5)
    assert own.peak[0] > other.peak[0]
