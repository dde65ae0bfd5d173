from __future__ import annotations

from pathlib import Path

import pytest

from simsc.bench.collection import CANDIDATES, _ratios, bench_collection
from simsc.models import QUICK

pytest.importorskip("faiss")


@pytest.mark.slow
def test_a_small_collection_is_searched_completely(tmp_path: Path) -> None:
    share, found, size = bench_collection(quick=True, model=QUICK, folder=tmp_path)
    assert share.value > 0
    assert found.value == 1  # all forty entries are candidates
    assert size.unit == "KB"
    assert (tmp_path / "index" / "coarse.faiss").stat().st_size == pytest.approx(40 * 1024 * size.value)
    assert (
        len(list((tmp_path / "store").rglob("*.safetensors"))) == 50
    )  # of ten photographs, and of the entries that are parts of them


def test_answers_are_compared_with_the_best_of_all() -> None:
    answer = {str(number): (0.01, 0.1, ["a", "b"]) for number in CANDIDATES}
    other = {str(number): (0.03, 0.3, ["a", "z"]) for number in CANDIDATES}
    share, found, size = _ratios([answer, other], [{"a", "b"}, {"a", "b"}], 0.001, 1000, "memory", 2048)
    assert share.value == pytest.approx(0.2 / 1.0)
    assert found.value == pytest.approx(0.75)
    assert size.value == pytest.approx(2 / 1000)
