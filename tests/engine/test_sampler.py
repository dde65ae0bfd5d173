from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.data.records import ImageRef, Pair
from simsc.data.registry import load_pairs
from simsc.engine.sampler import epoch_batches, image_forwards
from simsc.errors import DataError
from simsc.files import shared_folder


def pairs_of(edges: list[tuple[int, int]]) -> list[Pair]:
    refs = [ImageRef(str(index), (8, 8)) for index in range(10)]
    return [Pair(f"{n}", "c", refs[a], refs[b], [[0, 0]], [[1, 1]]) for n, (a, b) in enumerate(edges)]


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


@pytest.mark.real_data
def test_an_epoch_of_pfpascal_needs_at_most_55_percent_of_its_forwards() -> None:
    try:
        pairs = load_pairs("pfpascal", None, "train")
    except DataError:
        pytest.skip(f"PF-Pascal is not below {shared_folder()}")
    for epoch in range(3):
        assert image_forwards(pairs, epoch_batches(pairs, 4, 0, epoch)) <= 0.55 * 2 * len(pairs)
