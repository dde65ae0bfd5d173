"""The labelling loop and the boxes, on data whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from simsc.data.records import Annotated, ImageRef, pair_of
from simsc.experiments.boxes import Carried, _row, carry_boxes
from simsc.experiments.labelling import Matches, Pool, Size, simulate
from simsc.matcher import Matcher


def pool(photographs=8, points=6):
    """Photographs of which each shows all points but the first, which has one row less."""
    objects = []
    for index in range(photographs):
        count = points - (index == 0)
        places = np.arange(2.0 * count).reshape(count, 2)
        image = ImageRef(f"{index}", (100, 100))
        objects.append(
            Annotated(str(index), "cat", image, places, np.ones(count, bool), np.array([0.0, 0.0, 50.0, 100.0]))
        )
    return Pool.of(objects)


def matches(of, wrong):
    """Transfers that are right and confident, but for those of wrong ``(P, K)`` targets, which are far off and not."""
    count = len(of.objects)
    points = np.repeat(of.truth[None], count, axis=0) + np.where(wrong, 30.0, 0.0)[None, ..., None]
    confidence = np.repeat(np.where(wrong, 0.2, 0.9)[None], count, axis=0) * (of.present[:, None] & of.present[None])
    confidence[np.arange(count), np.arange(count)] = 0
    return Matches(points, confidence)


def test_the_most_confident_source_that_is_known_wins():
    one = pool(3, 2)
    found = Matches(np.arange(36.0).reshape(3, 3, 2, 2), np.array([0.1, 0.5, 0.9])[:, None, None] * np.ones((3, 3, 2)))
    known = np.array([[True, True], [True, False], [False, False]])
    points, confidence = found.transferred(known)
    np.testing.assert_array_equal(confidence, [[0.5, 0.1]] * 3)
    np.testing.assert_array_equal(points[:, 0], found.points[1, :, 0])
    np.testing.assert_array_equal(points[:, 1], found.points[0, :, 1])
    assert not one.present[0, 1]
    nothing, none = found.transferred(np.zeros((3, 2), bool))
    assert np.isnan(nothing).all()
    assert not none.any()


def test_right_is_within_a_tenth_of_the_larger_side():
    one = pool()
    assert one.is_right(one.truth + np.array([9.9, 0]))[one.present].all()
    assert not one.is_right(one.truth + np.array([10.1, 0]))[one.present].any()


def test_placing_the_doubtful_first_needs_fewer_points_than_placing_at_random():
    one = pool(12)
    wrong = np.random.default_rng(0).random(one.present.shape) < 0.3
    size = Size(share=0.05, adapted=0)
    (placed, right), (blind, seen) = (simulate(one, [matches(one, wrong)], random, size, 0) for random in (False, True))
    assert placed[-1] == blind[-1] == right[-1] == seen[-1] == 1
    assert (np.diff(right) >= 0).all()
    first = [x[np.flatnonzero(y >= 0.95)[0]] for x, y in ((placed, right), (blind, seen))]
    assert first[0] < first[1] - 0.2


def test_a_second_stage_takes_over_when_enough_is_placed():
    one = pool()
    bad, good = matches(one, np.ones_like(one.present)), matches(one, np.zeros_like(one.present))
    placed, right = simulate(one, [bad, good], False, Size(adapt_at=0.5), 0)
    assert (right[placed >= 0.5] == 1).all()
    np.testing.assert_allclose(right[placed < 0.5], placed[placed < 0.5])


@pytest.mark.parametrize("blank", [False, True])
def test_boxes_are_compared_with_the_true_ones(color_model, mosaic, blank):
    picture = mosaic(20, 20)
    views = [picture[:256, :256], np.full((256, 256, 3), 255, np.uint8) if blank else picture[32:288, 48:304]]
    corners = np.array([[96.0, 80, 176, 144], [48.0, 48, 128, 112]])
    source, target = (
        Annotated(
            str(i), "cat", ImageRef(str(i), (256, 256), render=lambda v=v: v), np.ones((1, 2)), np.ones(1, bool), b
        )
        for i, (v, b) in enumerate(zip(views, corners, strict=True))
    )
    (found,) = carry_boxes(Matcher(color_model, device="cpu"), [pair_of(source, target)])
    assert (found.iou > 0.75, found.confidence > 0.5) == (not blank, not blank)


def test_the_table_counts_all_boxes_and_those_that_are_kept():
    row = _row("all", [Carried("cat", 0.8, 0.9), Carried("cat", 0.6, 0.5), Carried("cat", 0.1, 0.05)])
    assert list(row.cells.values()) == ["3", "0.60", "66.7", "66.7", "0.70", "100.0"]
