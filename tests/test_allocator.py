from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from simsc.allocator import free_memory, hand_back, keep_freed_memory


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


def test_memory_that_the_system_would_give_back_counts_as_free(tmp_path: Path) -> None:
    table = tmp_path / "meminfo"
    table.write_text("MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:  3000 kB\n")
    assert free_memory(table) == 3000 << 10


def test_some_memory_is_taken_for_granted_where_the_system_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd").write_text("MemAvailable:\n")
    for table in (tmp_path / "missing", tmp_path / "odd"):
        assert free_memory(table) > 1 << 20
    monkeypatch.setattr("os.sysconf", int)  # ValueError, as for a name that it does not know
    assert free_memory(tmp_path / "missing") == 4 << 30
