"""Files are replaced as a whole, with the permissions of any other file, and waited for only where that matters."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from simsc.files import atomic_path, write_text


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fails() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_the_umask_of_the_process_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to all threads: one that makes a file while it is changed gets the wrong permissions."""

    def refused(mask: int) -> int:
        raise AssertionError(f"umask set to {mask:o}")

    monkeypatch.setattr(os, "umask", refused)
    write_text(tmp_path / "a.txt", "text")


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    threads = [threading.Thread(target=write_text, args=(path, str(number) * 1000)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(path.read_text())) == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("durable", [True, False])
def test_only_what_cannot_be_made_again_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    waited = []
    monkeypatch.setattr(os, "fsync", waited.append)
    with atomic_path(tmp_path / "a.txt", durable=durable) as temporary:
        temporary.write_text("text")
    assert bool(waited) == durable
