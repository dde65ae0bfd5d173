from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.data.mixing import Material
from simsc.data.records import Annotated, ImageRef, Pair, unique_images
from simsc.data.sources import load_pairs
from simsc.errors import DataError
from simsc.files import shared_folder
from simsc.training.config import Config
from simsc.training.sampler import DrawnPairs, Item, ListedPairs, image_forwards


def pairs_of(edges: list[tuple[int, int]]) -> list[Pair]:
    refs = [ImageRef(str(index), (8, 8)) for index in range(10)]
    return [Pair(f"{n}", "c", refs[a], refs[b], [[0, 0]], [[1, 1]]) for n, (a, b) in enumerate(edges)]


def listed(edges: list[tuple[int, int]], **settings: object) -> ListedPairs:
    return ListedPairs([pairs_of(edges)], Config(**settings))


def annotated(key: str, present: list[bool] | None = None, category: str = "c", flip: bool = False) -> Annotated:
    mask = np.array(present or [True])
    return Annotated(key, category, ImageRef(key, (8, 8), flip=flip), np.ones((len(mask), 2)), mask)


def material(objects: list[Annotated], weight: float = 1.0, **fields: object) -> Material:
    return Material("m", weight, "img", objects=objects, **fields)


def drawn(*sources: Material, **settings: object) -> DrawnPairs:
    return DrawnPairs(sources, Config(**{"group": 4, **settings}))


def ends(pairing: DrawnPairs, epoch: int = 0) -> list[list[tuple[str, str]]]:
    batches = [pairing.pairs(batch, epoch) for batch in pairing.batches(epoch)]
    return [[(pair.source.key, pair.target.key) for pair in batch] for batch in batches]


def groups(pairing: DrawnPairs) -> dict[int, list[Item]]:
    found: dict[int, list[Item]] = {}
    for item in (item for batch in pairing.batches(0) for item in batch):
        found.setdefault(item.group, []).append(item)
    return found


edges = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40)


@settings(max_examples=50, deadline=None)
@given(edges, st.integers(1, 7), st.booleans())
def test_every_pair_occurs_once_in_full_batches_and_the_seed_decides(edges, batch_size: int, share: bool) -> None:
    pairing = listed(edges, batch_size=batch_size, share_images=share)
    batches = pairing.batches(1)
    assert sorted(item.source for batch in batches for item in batch) == list(range(len(edges)))
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert batches == pairing.batches(1)


def test_another_epoch_or_seed_is_another_order() -> None:
    everything = [(a, b) for a in range(5) for b in range(5)]
    orders = [listed(everything, seed=seed).batches(epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_both_orders_of_a_pair_stand_together() -> None:
    both = [(0, 1), (2, 3), (4, 5), (1, 0), (3, 2), (5, 4)]
    assert image_forwards(listed(both, batch_size=2), 0) == 6
    assert image_forwards(listed([(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (0, 2)], batch_size=2), 0) == 12


def test_listed_sources_are_shown_as_often_as_their_weights_say() -> None:
    lists = [pairs_of([(0, 1)] * 6), pairs_of([(2, 3)] * 10)]
    pairing = ListedPairs(lists, Config(), [2.0, 0.5])
    counts = Counter(item.source for batch in pairing.batches(0) for item in batch)
    assert [counts[number] for number in range(6)] == [2] * 6
    assert sum(counts[number] for number in range(6, 16)) == 5
    assert counts == Counter(item.source for batch in pairing.batches(0) for item in batch)
    assert counts != Counter(item.source for batch in pairing.batches(1) for item in batch)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 30), st.integers(1, 20), st.integers(2, 6))
def test_an_epoch_shows_every_image_once_and_matches_all_of_a_group(count: int, batch_size: int, group: int) -> None:
    pairing = drawn(material([annotated(str(n)) for n in range(count)]), group=group, batch_size=batch_size)
    batches = pairing.batches(1)
    homes: dict[int, set[int]] = {}
    for item in (item for batch in batches for item in batch):
        homes.setdefault(item.group, set()).update((item.source, item.target))
    assert sorted(member for home in homes.values() for member in home) == list(range(count))
    assert all(min(group, count) <= len(home) < 2 * group for home in homes.values())
    sizes = Counter(item.group for batch in batches for item in batch)
    assert all(sizes[number] == len(home) * (len(home) - 1) for number, home in homes.items())
    assert all(len(batch) >= batch_size for batch in batches[:-1])
    assert all(len({i for i, batch in enumerate(batches) for item in batch if item.group == n}) == 1 for n in homes)


def test_groups_of_four_images_are_twelve_pairs_for_four_forwards() -> None:
    pairing = drawn(material([annotated(str(n)) for n in range(8)]), batch_size=12)
    assert [len(batch) for batch in pairing.batches(0)] == [12, 12]
    assert image_forwards(pairing, 0) == 8
    assert ends(pairing, 0) != ends(pairing, 1)


def test_ten_thousand_objects_are_paired_without_listing_their_pairs() -> None:
    pairing = drawn(material([annotated(str(n)) for n in range(10_000)]), group=6, batch_size=30)
    items = [item for batch in pairing.batches(0) for item in batch]
    assert {item.source for item in items} == set(range(10_000))
    assert len(items) < 8 * 10_000


def test_pairs_have_a_common_point_and_two_images() -> None:
    objects = [annotated("a", [True, False]), annotated("b", [False, True]), annotated("c", [True, True])]
    objects.append(annotated("c", [True, True]))  # a second object in the same image
    found = {pair for batch in ends(drawn(material(objects))) for pair in batch}
    assert found == {("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")}


def test_pairs_that_are_kept_apart_are_never_formed() -> None:
    apart = frozenset({frozenset("ab")})
    found = {pair for batch in ends(drawn(material([annotated(key) for key in "abc"], apart=apart))) for pair in batch}
    assert found == {("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")}


def test_groups_keep_sources_categories_and_mirrored_images_apart() -> None:
    kinds = [("x", "c", False), ("x", "d", False), ("x", "c", True), ("y", "c", False)]
    objects = {
        kind: [annotated(f"{kind[0]}{kind[1]}{n}{kind[2]}", category=kind[1], flip=kind[2]) for n in range(5)]
        for kind in kinds
    }
    sources = [[one for kind in kinds if kind[0] == name for one in objects[kind]] for name in "xy"]
    pairing = drawn(*(material(source) for source in sources), batch_size=1)
    homes = {frozenset(key for pair in batch for key in pair) for batch in ends(pairing)}
    assert homes == {frozenset(one.image.key for one in members) for members in objects.values()}


def test_a_batch_mixes_sources() -> None:
    sources = [material([annotated(f"{name}{n}") for n in range(40)]) for name in "xy"]
    batches = ends(drawn(*sources, batch_size=48))
    assert any(len({pair[0][0] for pair in batch}) == 2 for batch in batches)


@pytest.mark.parametrize(("weight", "expected"), [(2.0, 20), (0.5, 5), (1.3, 13)])
def test_every_image_is_shown_as_often_as_its_source_weighs(weight: float, expected: int) -> None:
    pairing = drawn(material([annotated(str(n)) for n in range(10)], weight), group=5, batch_size=1)
    shown = [{(i.source, i.group, i.showing) for batch in pairing.batches(e) for i in batch} for e in range(20)]
    assert np.mean([len(each) for each in shown]) == pytest.approx(expected, abs=0.5)
    assert all(set(Counter(number for number, *_ in each).values()) <= {int(weight), int(weight) + 1} for each in shown)


def test_a_share_of_one_image_is_none_or_two_with_the_right_mean() -> None:
    pairing = drawn(
        material([annotated(str(n)) for n in range(4)], 0.25), material([annotated(f"y{n}") for n in range(4)]), group=2
    )
    shown = [len({i.source for batch in pairing.batches(e) for i in batch if i.source < 4}) for e in range(200)]
    assert set(shown) <= {0, 2}
    assert np.mean(shown) == pytest.approx(1, abs=0.2)


@settings(max_examples=50, deadline=None)
@given(edges, st.integers(1, 7), st.integers(4, 6))
def test_every_anchor_occurs_and_brings_all_pairs_with_its_group(edges, batch_size: int, group: int) -> None:
    anchors = [pair for pair in pairs_of([(0, 1), *edges]) if pair.source.key != pair.target.key]
    objects = [annotated(str(n)) for n in range(10)]
    pairing = drawn(material(objects, anchors=anchors), group=group, batch_size=batch_size)
    found = {pair for batch in ends(pairing, 1) for pair in batch}
    assert {(pair.source.key, pair.target.key) for pair in anchors} <= found
    assert {pair[::-1] for pair in found} == found
    assert image_forwards(pairing, 1) <= 2 * len(anchors)


def test_two_anchors_are_a_group_of_twelve_pairs() -> None:
    anchors = pairs_of([(0, 1), (1, 0), (2, 3), (3, 2)])
    (batch,) = ends(drawn(material([annotated(str(n)) for n in range(8)], anchors=anchors), batch_size=99))
    assert len(batch) == 12
    assert {key for pair in batch for key in pair} == set("0123")


def test_one_source_has_anchors_and_another_shows_its_images() -> None:
    anchored = material([annotated(str(n)) for n in range(8)], 2.0, anchors=pairs_of([(0, 1), (2, 3)]))
    other = material([annotated(f"y{n}") for n in range(8)])
    pairing = drawn(anchored, other, batch_size=1)
    found = groups(pairing).values()
    shown = Counter(number for items in found for number in {item.source for item in items})
    assert shown == {**dict.fromkeys(range(4), 2), **dict.fromkeys(range(8, 16), 1)}
    assert {item.showing for items in found for item in items if item.source < 8} == {0, 1}


def test_anchors_of_objects_that_are_left_out_leave_the_others_as_they_are() -> None:
    gone = material([annotated(str(n)) for n in range(4, 8)], anchors=pairs_of([(0, 1)]))
    assert {key for batch in ends(drawn(gone)) for pair in batch for key in pair} == set("4567")


def test_a_limit_holds_for_what_stands_beside_anchors_too() -> None:
    anchored = material([annotated(str(n)) for n in range(8)], anchors=pairs_of([(0, 1), (2, 3)]))
    other = material([annotated(f"y{n}") for n in range(40)])
    found = groups(drawn(anchored, other, max_pairs=20))
    assert sorted(len(items) for items in found.values()) == [12, 12, 12]
    assert len([items for items in found.values() if items[0].source < 8]) == 1


def test_groups_around_anchors_are_of_images_as_they_are_unless_mirrored_by_themselves() -> None:
    objects = [replace(annotated(str(n), [True, True]), point_names=("L_Ear", "R_Ear")) for n in range(10)]
    pairing = drawn(material(objects, anchors=pairs_of([(n, n + 1) for n in range(0, 10, 2)])), flip_alone=0.3)
    numbers = {number for items in groups(pairing).values() for item in items for number in (item.source, item.target)}
    assert 1 <= sum(number >= 10 for number in numbers) <= 5


def test_a_limit_ends_the_epoch() -> None:
    pairing = drawn(material([annotated(str(n)) for n in range(40)]), max_pairs=30, batch_size=12)
    assert sum(len(batch) for batch in pairing.batches(0)) == 36  # whole groups of twelve


def test_data_without_a_pair_are_refused() -> None:
    with pytest.raises(DataError, match="no two images of a category"):
        drawn(material([annotated("a", [True, False]), annotated("b", [False, True])]))


@pytest.mark.real_data
def test_an_epoch_of_pfpascal_needs_at_most_55_percent_of_its_forwards() -> None:
    try:
        pairs = load_pairs("pfpascal", None, "train")
    except DataError:
        pytest.skip(f"PF-Pascal is not below {shared_folder()}")
    pairing = ListedPairs([pairs], Config())
    for epoch in range(3):
        forwards = sum(len(unique_images(pairing.pairs(batch, epoch))) for batch in pairing.batches(epoch))
        assert forwards <= 0.55 * 2 * len(pairs)
