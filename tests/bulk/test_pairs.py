from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import simsc.bulk.lookup as lookup_module
import simsc.bulk.pairs as pairs_module
import simsc.matching.coherence as coherence_module
from simsc.bulk.lookup import Found, Ready, calibrated, make_ready, plain, votes_of
from simsc.bulk.pairs import Pair, match_each, match_plain
from simsc.bulk.places import Place
from simsc.bulk.store import Encodings, Store
from simsc.matcher import Matcher
from simsc.matching.coherence import Polls, cast_votes, compare
from simsc.models.model import SimSC


def images(matcher: Matcher, root: Path, max_bytes: int = 1 << 30, store: Path | None = None) -> Encodings[Any]:
    options: dict[str, Any] = {"root": Place.at(root), "max_bytes": max_bytes}
    options["store"] = None if store is None else Store(Place.at(store), matcher)
    if plain(matcher):
        return Encodings(matcher, make_ready(matcher), Ready.nbytes.fget, **options)  # type: ignore[attr-defined]
    return Encodings(matcher, lambda image: image, lambda _: 1, **options)


def some_pairs(count: int = 40, points: int = 5) -> list[Pair]:
    random = np.random.default_rng(3)
    chosen = random.integers(0, 6, (count, 2))
    return [Pair(f"{a}.png", f"{b}.png", random.uniform(0, 90, (random.integers(0, points), 2))) for a, b in chosen]


def test_the_same_as_matching_each_pair(network: Matcher, photos: Path) -> None:
    pairs = some_pairs()
    found = match_plain(network, images(network, photos), pairs, cycle=True)
    statuses, alike = [], []
    for pair, answer in zip(pairs, found, strict=True):
        assert isinstance(answer, Found)
        assert pair.points is not None
        expected = network.match(photos / pair.source, photos / pair.target, pair.points)
        np.testing.assert_allclose(answer.points, expected.points, atol=0.2)  # half precision
        alike += np.isclose(answer.confidence, expected.confidence, rtol=0.03, atol=0.01).tolist()
        assert answer.temperature == pytest.approx(expected.temperature, rel=1e-5)
        assert answer.cycle_error is not None
        np.testing.assert_allclose(answer.cycle_error, expected.cycle_error, atol=1.0)
        statuses += zip(answer.status, expected.status, strict=True)
    assert np.mean([one == other for one, other in statuses]) > 0.97  # but for those on a threshold
    assert np.mean(alike) > 0.97  # but for those where a neighbour's best cell is another one in half precision
    assert calibrated(network)
    assert len({one for one, _ in statuses}) > 1


def test_without_the_way_back_confidence_is_the_peak(vit: Matcher, photos: Path) -> None:
    pair = Pair("0.png", "1.png", np.array([[20.0, 30.0], [50.0, 60.0]]))
    (found,) = match_plain(vit, images(vit, photos), [pair], cycle=False)
    assert isinstance(found, Found)
    expected = vit.match(photos / "0.png", photos / "1.png", pair.points)
    np.testing.assert_allclose(found.confidence, expected.peak, rtol=0.02)
    assert found.cycle_error is None
    assert found.status.tolist() == ["unsure", "unsure"]


def test_digits_do_not_depend_on_neighbours_or_order(network: Matcher, photos: Path, tmp_path: Path) -> None:
    pairs = [pair for pair in some_pairs(60, 9) if pair.points is not None and len(pair.points)]
    together = match_plain(network, images(network, photos), pairs, cycle=True)
    turned = match_plain(network, images(network, photos, store=tmp_path), pairs[::-1], cycle=True)[::-1]
    stored = images(network, photos, store=tmp_path)
    alone = [match_plain(network, stored, [pair], cycle=True)[0] for pair in pairs]
    assert (stored.counts.encoded, stored.counts.loaded) == (0, 6)
    for one, *others in zip(together, turned, alone, strict=True):
        for other in others:
            assert isinstance(one, Found)
            assert isinstance(other, Found)
            for name in ("points", "confidence", "cycle_error", "status"):
                assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


def test_small_blocks_and_little_memory_change_nothing(
    matcher: Matcher, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = some_pairs()
    expected = match_plain(matcher, images(matcher, photos), pairs, cycle=False)
    monkeypatch.setattr(pairs_module, "MAX_QUERY_BYTES", 4 * 64 * 7)
    monkeypatch.setattr(lookup_module, "MAX_SCORES", 16)
    lean = images(matcher, photos, max_bytes=0)
    for one, other in zip(expected, match_plain(matcher, lean, pairs, cycle=False), strict=True):
        assert isinstance(one, Found)
        assert isinstance(other, Found)
        np.testing.assert_array_equal(one.points, other.points)


def test_images_are_compared_once_for_both_directions_and_where_that_happens_changes_no_digit(
    vit: Matcher, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [pair for pair in some_pairs(60, 9) if pair.points is not None and len(pair.points)]
    compared: list[object] = []

    def counted(*arguments: Any) -> Any:
        compared.extend(arguments[0])  # one comparison is of several pairs
        return compare(*arguments)

    monkeypatch.setattr(coherence_module, "compare", counted)
    expected = match_plain(vit, images(vit, photos), pairs, cycle=True)
    assert len(compared) == len({frozenset((pair.source, pair.target)) for pair in pairs})
    compared.clear()
    monkeypatch.setattr(pairs_module, "MAX_QUERY_BYTES", 4 * 96)  # a block for each pair
    found = match_plain(vit, images(vit, photos), pairs, cycle=True)
    assert len(compared) > len(pairs) / 2
    for one, other in zip(expected, found, strict=True):
        assert isinstance(one, Found)
        assert isinstance(other, Found)
        for name in ("points", "confidence", "cycle_error"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


def test_the_way_back_is_voted_on_by_the_other_image(vit: Matcher, photos: Path) -> None:
    ready = images(vit, photos)
    first, second = ready.get("0.png"), ready.get("1.png")
    polls = Polls([("a", "b"), ("b", "a")])
    for (here, one), (there, other) in permutations((("b", first), ("a", second))):
        (votes,) = votes_of(polls, [((here, there), one.ask(np.zeros((0, 2))))], other)
        assert votes is not None
        expected = cast_votes(compare(one.units, other.units, one.temperature * other.temperature))
        for part, wanted in zip(votes, expected, strict=True):
            torch.testing.assert_close(part, wanted, atol=1e-4, rtol=1e-4)


def test_each_image_is_encoded_once(matcher: Matcher, photos: Path) -> None:
    kept = images(matcher, photos)
    found = match_plain(matcher, kept, some_pairs(), cycle=True)
    assert kept.counts.encoded == 6
    assert not calibrated(matcher)
    assert {status for each in found if isinstance(each, Found) for status in each.status} == {"unsure"}


def test_heads_and_flipped_ensembles_go_pair_by_pair(color_model: SimSC, photos: Path) -> None:
    matcher = Matcher(color_model, size=128, flip=True, device="cpu")
    assert not plain(matcher)
    pairs = [*some_pairs(5), Pair("absent.png", "0.png", np.ones((1, 2)))]
    found = match_each(matcher, images(matcher, photos), pairs)
    for pair, answer in zip(pairs[:-1], found[:-1], strict=True):
        assert isinstance(answer, Found)
        expected = matcher.match(photos / pair.source, photos / pair.target, pair.points)
        np.testing.assert_allclose(answer.points, expected.points, atol=0.5)
    assert isinstance(found[-1], str)


def test_what_cannot_be_matched_says_why(matcher: Matcher, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_text("no")
    inside = np.array([[1.0, 1.0]])
    pairs = [
        Pair("0.png", "1.png", inside),
        Pair("0.png", "1.png", np.array([[1.0, 500.0]])),
        Pair("0.png", str(tmp_path / "bad.png"), inside),
        Pair(str(tmp_path / "bad.png"), "0.png", inside),
        Pair("0.png", "1.png"),
    ]
    good, *bad = match_plain(matcher, images(matcher, photos), pairs, cycle=True)
    assert isinstance(good, Found)
    for reason, part in zip(bad, ("outside of the source image", "bad.png", "bad.png", "no points"), strict=True):
        assert isinstance(reason, str)
        assert part in reason
