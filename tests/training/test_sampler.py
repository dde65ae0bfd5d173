from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.data.records import ImageRef, Pair
from simsc.data.sources import load_pairs
from simsc.errors import ConfigError, DataError
from simsc.files import shared_folder
from simsc.training.config import Config
from simsc.training.feed import TrainingFeed
from simsc.training.sampler import epoch_batches, image_forwards


def pairs_of(edges: list[tuple[int, int]]) -> list[Pair]:
    refs = [ImageRef(str(index), (8, 8)) for index in range(10)]
    return [Pair(f"{n}", "c", refs[a], refs[b], [[0, 0]], [[1, 1]]) for n, (a, b) in enumerate(edges)]


def ends(pair: Pair) -> tuple[str, str]:
    return pair.source.key, pair.target.key


edges = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40)


@settings(max_examples=50, deadline=None)
@given(edges, st.integers(1, 7), st.booleans())
def test_every_pair_occurs_once_in_full_batches_and_the_seed_decides(edges, batch_size: int, share: bool) -> None:
    pairs = pairs_of(edges)
    batches = epoch_batches(pairs, batch_size, 0, 1, share)
    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert batches == epoch_batches(pairs, batch_size, 0, 1, share)


def test_another_epoch_or_seed_is_another_order() -> None:
    pairs = pairs_of([(a, b) for a in range(5) for b in range(5)])
    orders = [epoch_batches(pairs, 4, seed, epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_both_orders_of_a_pair_stand_together() -> None:
    pairs = pairs_of([(0, 1), (2, 3), (4, 5), (1, 0), (3, 2), (5, 4)])
    assert image_forwards(pairs, epoch_batches(pairs, 2, 0, 0)) == 6
    assert image_forwards(pairs, [[0, 1], [2, 3], [4, 5]]) == 12


@settings(max_examples=50, deadline=None)
@given(edges, st.integers(1, 7), st.integers(3, 5))
def test_a_group_holds_all_pairs_of_its_images_and_is_never_cut(edges, batch_size: int, group: int) -> None:
    pairs = pairs_of(edges)
    batches = epoch_batches(pairs, batch_size, 0, 1, group=group)
    assert all(batches)
    drawn = [index for batch in batches for index in batch]
    assert len(set(drawn)) == len(drawn)
    assert all(len(batch) >= batch_size for batch in batches[:-1])
    homes = [{key for index in batch for key in ends(pairs[index])} for batch in batches]
    for index, pair in enumerate(pairs):  # what was drawn with one of its images lies in the same batch
        assert sum(bool({*ends(pair)} & home) for home in homes) <= 1 or index not in drawn


def test_groups_of_four_images_are_twelve_pairs_for_four_forwards() -> None:
    pairs = pairs_of([(a, b) for a in range(8) for b in range(8) if a != b])
    batches = epoch_batches(pairs, 12, 0, 0, group=4)
    assert [len(batch) for batch in batches] == [12, 12]
    assert image_forwards(pairs, batches) == 8
    assert batches != epoch_batches(pairs, 12, 0, 1, group=4)


@settings(max_examples=50, deadline=None)
@given(edges, st.integers(1, 7), st.integers(4, 6))
def test_every_anchor_occurs_and_brings_all_pairs_with_its_group(edges, batch_size: int, group: int) -> None:
    everything = pairs_of([(a, b) for a in range(10) for b in range(10) if a != b])
    anchors = [pair for pair in pairs_of([(0, 1), *edges]) if pair.source.key != pair.target.key]
    batches = epoch_batches(everything, batch_size, 0, 1, group=group, anchors=anchors)
    drawn = [ends(everything[index]) for batch in batches for index in batch]
    assert set(map(ends, anchors)) <= set(drawn)
    assert {tuple(reversed(pair)) for pair in drawn} == set(drawn)
    assert image_forwards(everything, batches) <= 2 * len(anchors)


def test_two_anchors_are_a_group_of_twelve_pairs() -> None:
    everything = pairs_of([(a, b) for a in range(8) for b in range(8) if a != b])
    anchors = pairs_of([(0, 1), (1, 0), (2, 3), (3, 2)])
    (batch,) = epoch_batches(everything, 99, 0, 0, group=4, anchors=anchors)
    assert len(batch) == 12
    assert {key for index in batch for key in ends(everything[index])} == set("0123")


def test_groups_keep_categories_and_mirrored_images_apart() -> None:
    plain = [ImageRef(str(index), (8, 8)) for index in range(4)]
    mirrored = [ImageRef(f"{index}|flip", (8, 8), flip=True) for index in range(4)]
    point = [[0, 0]]
    pairs = [
        Pair(f"{side}{a}{b}", "c", refs[a], refs[b], point, point)
        for side, refs in enumerate((plain, mirrored))
        for a in range(4)
        for b in range(4)
        if a != b
    ]
    batches = epoch_batches(pairs, 1, 0, 0, group=8)
    assert sorted(len({pairs[index].source.flip for index in batch}) for batch in batches) == [1, 1]


def test_groups_that_a_list_cannot_fill_are_refused() -> None:
    pairs = pairs_of([(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)])
    with pytest.raises(ConfigError, match=r"group = 4 draws only \d pairs of 10 images"):
        TrainingFeed(pairs, None, Config(group=4))  # type: ignore[arg-type]  # refused before any image is needed


@pytest.mark.real_data
def test_an_epoch_of_pfpascal_needs_at_most_55_percent_of_its_forwards() -> None:
    try:
        pairs = load_pairs("pfpascal", None, "train")
    except DataError:
        pytest.skip(f"PF-Pascal is not below {shared_folder()}")
    for epoch in range(3):
        assert image_forwards(pairs, epoch_batches(pairs, 4, 0, epoch)) <= 0.55 * 2 * len(pairs)
