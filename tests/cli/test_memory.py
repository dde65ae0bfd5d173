from __future__ import annotations

import sys

import pytest

from simsc.cli.memory import keep_freed_memory


def test_the_allocator_is_left_alone_where_somebody_has_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    assert not keep_freed_memory()


def test_other_systems_and_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert not keep_freed_memory()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()


def test_glibc_gets_both_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Library:
        @staticmethod
        def mallopt(name: int, value: int) -> int:
            asked.append((name, value))
            return 1

    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_ARENA_MAX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("ctypes.CDLL", lambda _: Library)
    assert keep_freed_memory()
    assert asked == [(-3, 32 * 2**20), (-1, 2**30)]
