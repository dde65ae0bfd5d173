from __future__ import annotations

import os
import sys

import pytest

from simsc.allocator import hand_back, keep_freed_memory


@pytest.fixture(autouse=True)
def _linux_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)


def test_the_allocator_is_left_alone_where_somebody_has_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: pytest.fail("the allocator was touched"))
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    assert not keep_freed_memory()


def test_other_systems_and_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert not keep_freed_memory()
    assert not hand_back()
    monkeypatch.setattr("ctypes.CDLL", lambda _: pytest.fail("the allocator was touched"))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()
    assert not hand_back()


def test_glibc_gets_both_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Library:
        @staticmethod
        def mallopt(name: int, value: int) -> int:
            asked.append((name, value))
            return 1

    monkeypatch.setattr("ctypes.CDLL", lambda _: Library)
    assert keep_freed_memory()
    assert asked == [(-3, 32 * 2**20), (-1, 2**30)]


def test_everything_that_is_free_is_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []

    class Library:
        malloc_trim = kept.append

    monkeypatch.setattr("ctypes.CDLL", lambda _: Library)
    assert hand_back()
    assert kept == [0]
