"""Pairs of scenes: what they contain, and that they travel to other processes."""

import pickle
from collections import Counter

import numpy as np
import pytest

from simsc.errors import DataError
from simsc.scenes import CATEGORIES, POINT_NAMES, load_pairs, render_scene


@pytest.mark.parametrize(("split", "count"), [("val", 90), ("test", 150)])
def test_every_category_gives_its_pairs(split: str, count: int) -> None:
    pairs = load_pairs(split)
    assert len(pairs) == count
    assert Counter(pair.category for pair in pairs) == dict.fromkeys(CATEGORIES, count // len(CATEGORIES))
    assert len({pair.name for pair in pairs}) == count


def test_pairs_share_three_points_or_more() -> None:
    for pair in load_pairs("test", pairs_per_category=6):
        assert len(pair.source_points) >= 3
        assert set(pair.point_names) <= set(POINT_NAMES[pair.category])
        assert pair.source.key != pair.target.key


def test_points_of_a_pair_are_those_of_its_scenes() -> None:
    pair = load_pairs("test", pairs_per_category=1)[2]
    for ref, points, box in (
        (pair.source, pair.source_points, pair.source_box),
        (pair.target, pair.target_points, pair.target_box),
    ):
        scene = render_scene(pair.category, int(ref.key[-4:]), split="test")
        rows = [scene.point_names.index(name) for name in pair.point_names]
        assert scene.visible[rows].all()
        np.testing.assert_array_equal(points, scene.points[rows])
        np.testing.assert_array_equal(box, scene.box)
        np.testing.assert_array_equal(ref.load(), scene.image)


def test_listing_is_repeatable() -> None:
    first, second = (load_pairs("val", pairs_per_category=4, images_per_category=6) for _ in range(2))
    assert [pair.name for pair in first] == [pair.name for pair in second]


def test_splits_have_no_picture_in_common() -> None:
    keys = [
        {image.key for pair in load_pairs(split, pairs_per_category=3) for image in (pair.source, pair.target)}
        for split in ("train", "val", "test")
    ]
    assert sum(len(part) for part in keys) == len(set.union(*keys))


def test_other_sizes_have_other_keys() -> None:
    small, large = (load_pairs("val", pairs_per_category=1, size=size)[0].source for size in (128, 256))
    assert small.key != large.key
    assert max(small.size) == 128


def test_images_can_be_sent_to_another_process() -> None:
    image = load_pairs("val", pairs_per_category=1)[0].source
    copy = pickle.loads(pickle.dumps(image))
    np.testing.assert_array_equal(copy.load(), image.load())


def test_no_more_pairs_than_the_pictures_give() -> None:
    assert len(load_pairs("val", images_per_category=2, pairs_per_category=50)) <= 2 * len(CATEGORIES)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(DataError, match="did you mean 'train'"):
        load_pairs("trian")
