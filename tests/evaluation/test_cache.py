"""Trunk outputs kept in memory or on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsc.evaluation.cache import free_memory


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
