from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from simsc.data.mixing import Material
from simsc.data.records import Annotated, ImageRef
from simsc.matching.features import Features
from simsc.models.model import SimSC
from simsc.models.trained import Trained
from simsc.training.config import Config
from simsc.training.sampler import DrawnPairs
from simsc.training.teacher import POINTS, SHARE, Teacher

SIZE = (96, 128)


def colored(key: str, pixels: np.ndarray) -> Annotated:
    """An object whose key-points are the corners of most of its image."""
    height, width = pixels.shape[:2]
    corners = np.array([[20.0, 20.0], [width - 20.0, height - 20.0]])
    image = ImageRef(key, (height, width), render=lambda: pixels)
    return Annotated(key, "c", image, corners, np.array([True, True]))


@pytest.fixture
def teacher(color_model: SimSC) -> Teacher:
    """It knows a cell by its colour, at an input of 128 pixels."""
    trained = Trained.of(color_model)
    card = replace(trained.card, image_size=128, localizer="argmax")
    return Teacher(Trained(color_model, card), torch.device("cpu"))


def moved_by_cells(pixels: np.ndarray, cells: int) -> np.ndarray:
    return np.roll(pixels, 16 * cells, axis=1)


def test_points_are_taught_where_their_colours_are(teacher: Teacher, mosaic: Callable[..., np.ndarray]) -> None:
    pixels = mosaic(8, 8)
    source, target = colored("a", pixels), colored("b", moved_by_cells(pixels, 2))
    asked, found = teacher.lesson(source, target, np.random.default_rng(0))
    assert len(asked) > POINTS / 4
    expected = (asked // 16 + [2, 0]) % 8 * 16 + 7.5  # the middle of the cell of the same colour
    near_a_border = (np.abs(asked % 16 - 7.5) > 4).any(axis=1)  # there two colours are mixed
    np.testing.assert_allclose(found[~near_a_border], expected[~near_a_border], atol=0.01)


def test_what_does_not_lead_back_is_not_taught(teacher: Teacher, mosaic: Callable[..., np.ndarray]) -> None:
    source, target = colored("a", mosaic(8, 8, seed=1)), colored("b", mosaic(8, 8, seed=2))
    asked, found = teacher.lesson(source, target, np.random.default_rng(0))
    assert len(asked) == len(found) < POINTS / 2


def test_points_and_matches_are_in_pixels_of_images_of_any_size(
    teacher: Teacher, mosaic: Callable[..., np.ndarray]
) -> None:
    large = mosaic(8, 8)
    small = large[::2, ::2]
    asked, found = teacher.lesson(colored("a", large), colored("b", small), np.random.default_rng(0))
    assert np.abs(found - ((asked + 0.5) / 2 - 0.5)).max() < 8
    assert found.max() > 40


def test_images_are_encoded_once_and_the_oldest_forgotten(
    teacher: Teacher, mosaic: Callable[..., np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = [colored(name, mosaic(8, 8, seed=number)) for number, name in enumerate("abc")]
    seen: list[str] = []
    encode = teacher.encoder.encode
    monkeypatch.setattr(teacher.encoder, "encode", lambda refs: seen.extend(ref.key for ref in refs) or encode(refs))
    chance = np.random.default_rng(0)
    for _ in range(2):
        teacher.lesson(objects[0], objects[1], chance)
    assert seen == ["a", "b"]
    one = next(iter(teacher._known.values())).maps.nbytes
    assert teacher._bytes == 2 * one
    monkeypatch.setattr(teacher, "_limit", 2 * one)
    teacher.lesson(objects[2], objects[1], chance)
    teacher.lesson(objects[2], objects[0], chance)
    assert seen == ["a", "b", "c", "a"]
    assert teacher._bytes == 2 * one


def test_a_single_key_point_says_nothing_of_where_an_object_is(
    teacher: Teacher, mosaic: Callable[..., np.ndarray]
) -> None:
    one = replace(colored("a", mosaic(8, 8)), present=np.array([True, False]))
    asked, found = teacher.lesson(one, one, np.random.default_rng(0))
    assert asked.shape == found.shape == (0, 2)


def test_threads_share_what_is_known(
    teacher: Teacher, mosaic: Callable[..., np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, seen = teacher.encoder.encode, list[str]()

    def slowly(refs: list[ImageRef]) -> Features:
        seen.extend(ref.key for ref in refs)
        time.sleep(0.05)
        return encode(refs)

    monkeypatch.setattr(teacher.encoder, "encode", slowly)
    one, other = colored("a", mosaic(8, 8)), colored("b", mosaic(8, 8, seed=1))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(teacher.lesson, one, other, np.random.default_rng(n)) for n in range(4)]:
            done.result()
    assert sorted(seen) == ["a", "b"]
    assert teacher._bytes == sum(each.maps.nbytes for each in teacher._known.values())


class Knowing:
    """A teacher that repeats the annotation."""

    def lesson(
        self, source: Annotated, target: Annotated, chance: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        return source.points, target.points


def photographs(count: int) -> list[Annotated]:
    generator = np.random.default_rng(0)
    return [
        Annotated(
            f"{number}",
            "c",
            ImageRef(f"{number}", SIZE, render=lambda: np.zeros((*SIZE, 3), np.uint8)),
            generator.random((3, 2)) * [100, 70] + 10,
            np.ones(3, dtype=bool),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("settings", [{}, {"flip": 0.5, "crop": 0.3, "zoom": 0.5, "turn": 10.0, "colour": 0.2}])
def test_lessons_follow_the_copies_that_a_learner_sees(
    settings: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simsc.training.sampler.GROUPS", 1.0)
    monkeypatch.setattr("simsc.training.sampler.WITHIN", 1.0)
    pairing = DrawnPairs([Material("m", 1.5, "img", objects=photographs(7))], Config(group=4, **settings))
    for epoch in range(3):
        for batch in pairing.batches(epoch):
            lessons = pairing.taught(batch, epoch, Knowing())
            assert len(lessons) == len(batch)
            for lesson, pair in zip(lessons, pairing.pairs(batch, epoch), strict=True):
                assert (lesson.source.key, lesson.target.key) == (pair.source.key, pair.target.key)
                np.testing.assert_allclose(lesson.source_points, pair.source_points, atol=1e-9)
                np.testing.assert_allclose(lesson.target_points, pair.target_points, atol=1e-9)


def test_a_share_of_the_pairs_is_taught_the_same_whatever_batch_they_stand_in() -> None:
    pairing = DrawnPairs([Material("m", 4.0, "img", objects=photographs(60))], Config(group=6, batch_size=30))
    items = [item for batch in pairing.batches(0) for item in batch]
    names = [(pair.source.key, pair.target.key) for pair in pairing.taught(items, 0, Knowing())]
    assert 0.5 * SHARE < len(names) / len(items) < 1.5 * SHARE
    groups = {item.group for item in items}
    taught = {item.group for item in items if pairing.taught([item], 0, Knowing())}
    assert 0.25 < len(taught) / len(groups) < 0.75, "only some groups cost the teacher a forward pass"
    alone = [pairing.taught([item], 0, Knowing()) for item in items]
    assert [(pair.source.key, pair.target.key) for found in alone for pair in found] == names


def test_pairs_of_which_one_is_mirrored_by_itself_are_not_taught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simsc.training.sampler.GROUPS", 1.0)
    monkeypatch.setattr("simsc.training.sampler.WITHIN", 1.0)
    objects = [replace(one, point_names=("L_Ear", "R_Ear", "Nose")) for one in photographs(12)]
    pairing = DrawnPairs([Material("m", 1.0, "img", objects=objects)], Config(group=6, flip_alone=0.5))
    items = [item for batch in pairing.batches(0) for item in batch]
    lessons = pairing.taught(items, 0, Knowing())
    mirrored = [["mirror" in pair.source.key, "mirror" in pair.target.key] for pair in pairing.pairs(items, 0)]
    assert len(lessons) == sum(first == second for first, second in mirrored) < len(items)
    assert all(("mirror" in pair.source.key) == ("mirror" in pair.target.key) for pair in lessons)


def test_points_outside_of_a_copy_are_left_out() -> None:
    class Far(Knowing):
        def lesson(
            self, source: Annotated, target: Annotated, chance: np.random.Generator
        ) -> tuple[np.ndarray, np.ndarray]:
            return np.array([[5.0, 5.0], [130.0, 5.0]]), np.array([[6.0, 6.0], [6.0, 6.0]])

    pairing = DrawnPairs([Material("m", 1.0, "img", objects=photographs(40))], Config(group=4))
    lessons = pairing.taught([item for batch in pairing.batches(0) for item in batch], 0, Far())
    assert lessons
    assert all(pair.source_points.tolist() == [[5.0, 5.0]] for pair in lessons)
