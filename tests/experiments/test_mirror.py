"""The report on the mirror: its readings are checked on pairs whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simsc.data.records import Annotated, ImageRef, View, pair_of, twin
from simsc.experiments.mirror import Sample, _drawn, _judge, _row, turn, twin_places
from simsc.models.trained import Trained


@pytest.fixture
def objects():
    """A thing with a left and a right part, and the same in a mirror, where the names are on the other sides."""
    pixels = np.random.default_rng(3).integers(0, 256, (16, 32, 3), dtype=np.uint8).repeat(16, axis=0).repeat(8, axis=1)
    images = [
        ImageRef(name, (256, 256), render=lambda shown=shown: np.ascontiguousarray(shown))
        for name, shown in (("a", pixels), ("b", pixels[:, ::-1]))
    ]
    names = ("L_Ear", "R_Ear", "Nose")
    points = np.array([[39.5, 55.5], [215.5, 55.5], [119.5, 119.5]])
    first = Annotated("a", "cat", images[0], points, np.ones(3, bool), np.array([32.0, 48, 224, 128]), names, View(2))
    opposite = points * [-1, 1] + [255, 0]
    second = replace(first, name="b", image=images[1], points=opposite[[1, 0, 2]], view=View(6))
    return first, second


def test_the_mirror_finds_the_twin_and_both_readings_say_so(objects, sided_model):
    first, second = objects
    model = Trained.of(sided_model)
    judged = _judge(model, [pair_of(first, second)], [second])[0]
    assert judged.mirrored
    assert judged.by_name["auto"] == judged.by_name["yes"] == pytest.approx(1 / 3)  # the nose has no side
    assert judged.either_side["auto"] == pytest.approx(1)
    assert judged.by_name["no"] < 1
    cells = _row("all", [judged]).cells
    assert (cells["pairs"], cells["auto mirrors (%)"], cells["auto, by name"]) == ("1", "100.0", "33.3")
    assert cells["auto, either side"] == "100.0"


def test_twins_are_found_by_name_and_only_where_they_show(objects):
    _, second = objects
    hidden = replace(second, present=np.array([True, False, True]))
    np.testing.assert_allclose(twin_places(("L_Ear", "R_Ear", "Nose"), second)[:2], second.points[[1, 0]])
    assert np.isnan(twin_places(("L_Ear", "Nose"), hidden)).all()
    assert (twin("Hull_Mid_Left_Bot"), twin("Leg_Center")) == ("Hull_Mid_Right_Bot", None)


def test_viewpoints_differ_the_shorter_way_round(objects):
    first, second = objects
    assert turn(pair_of(first, second)) == 180
    assert turn(pair_of(replace(first, view=View(7)), replace(second, view=View(1)))) == 90
    assert turn(pair_of(replace(first, view=None), second)) is None


def test_pairs_are_drawn_among_few_images(objects, monkeypatch):
    class Context:
        seeds = (0,)
        meter = type("Meter", (), {"root": None})

    many = [replace(objects[0], name=str(i), image=replace(objects[0].image, key=str(i))) for i in range(9)]
    monkeypatch.setattr("simsc.experiments.mirror.load_objects", lambda *_: many)
    pairs, targets = _drawn(Sample("voc", "val", 12, 3), Context)
    assert len(pairs) == len(targets) == 12
    assert len({ref.key for pair in pairs for ref in (pair.source, pair.target)}) == 3
    monkeypatch.setattr("simsc.experiments.mirror.load_pairs", lambda *_: [pair_of(a, b) for a in many for b in many])
    pairs, targets = _drawn(Sample("spair", "val", 5, 4), Context)
    assert len(pairs) == 5
    assert targets == [None] * 5
    assert len({ref.key for pair in pairs for ref in (pair.source, pair.target)}) <= 4
