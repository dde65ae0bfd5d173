from __future__ import annotations

import os
import sys

import pytest

from simsc.cli import keep_freed_memory


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
    monkeypatch.setattr("ctypes.CDLL", lambda _: pytest.fail("the allocator was touched"))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()


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
