"""Files are replaced as a whole, with the permissions of any other file, and waited for only where that matters."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from simsc.errors import ConfigError, DataError, explain
from simsc.files import Lock, atomic_path, outputs, sweep, temporary_folder, write_text


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


HOLD = """
import sys, time
from simsc.files import Lock, atomic_path
with Lock(sys.argv[1]), atomic_path(sys.argv[1]) as temporary:
    print(temporary, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of ``a.txt`` and is in the middle of writing it."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "a.txt")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.temporary = Path(process.stdout.readline().strip())  # type: ignore[attr-defined]
    yield process
    process.kill()
    process.wait()


def test_an_output_has_one_owner(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(ConfigError, match=f"a.txt is in use by process {holder.pid}"), outputs(tmp_path / "a.txt"):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with outputs(tmp_path / "a.txt", None), Lock(tmp_path / "a.txt"):  # within a process it may be taken again
        assert (tmp_path / ".a.txt.in-use").read_text() == f"{os.getpid()}\n"
    assert not (tmp_path / ".a.txt.in-use").exists()


def test_a_lock_that_the_disk_has_no_room_for_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"), Lock(tmp_path / "a.txt"):
        pass
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_swept(
    tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = holder.temporary  # type: ignore[attr-defined]
    write_text(tmp_path / "b.txt", "b")
    assert left.exists()  # its process is still at work
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    monkeypatch.setattr("simsc.files._swept", set())  # as a new process
    (tmp_path / ".hidden.json").write_text("somebody else's")
    write_text(tmp_path / "b.txt", "b")
    assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"b.txt", ".hidden.json", ".a.txt.in-use"}


def test_folders_of_killed_processes_are_swept_and_those_in_use_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / ".folder.0123456789ab"
    (left / "inside").mkdir(parents=True)
    with temporary_folder(tmp_path) as used:
        assert not left.exists()
        monkeypatch.setattr("simsc.files._swept", set())
        sweep(tmp_path)
        assert used.is_dir()
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_swept_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may look into the folder in the moment between the making of a file and its lock."""
    from simsc import files

    lock, made = files._try_lock, []

    def late(handle: int) -> bool:
        made.append(next(tmp_path.iterdir()))
        if len(made) == 1:
            made[0].unlink()
        return lock(handle)

    monkeypatch.setattr(files, "_try_lock", late)
    write_text(tmp_path / "a.txt", "text")
    assert len(set(made)) == 2
    assert (tmp_path / "a.txt").read_text() == "text"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "there is no space left"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", ".tmp", None, "out"), "out: is a folder"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "file/out"), "file/out: a part of this path is a file"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 5000), "xxx: the name is too long"),
        (PermissionError(errno.EACCES, "Permission denied", "out"), "out: there is no permission"),
        (OSError(errno.EROFS, "Read-only file system", "out"), "out: the file system is read-only"),
        (FileExistsError(errno.EEXIST, "File exists", "cache"), "cache: exists already and is not a folder"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "not enough memory"),
        (Exception("I/O error: No space left on device (os error 28)"), "there is no space left"),
        (OSError("something else"), "something else"),
    ],
)
def test_the_system_s_refusals_are_sentences(error: Exception, words: str) -> None:
    sentence = explain(error)
    assert sentence is not None
    assert words in sentence
    assert len(sentence) < 300


def test_mistakes_of_our_own_keep_their_trace() -> None:
    assert explain(ValueError("x")) is None
    assert explain(RuntimeError("shape mismatch")) is None


def test_what_a_message_quotes_is_shortened() -> None:
    text = str(DataError("a.json: the name '" + "x" * 100_000 + "' is not allowed"))
    assert text.startswith("a.json: the name 'xxx")
    assert text.endswith("xxx' is not allowed")
    assert len(text) < 1300


def test_a_message_is_one_line_whatever_it_quotes() -> None:
    assert str(DataError("a.csv: got [[1 2]\n [3 4]]")) == "a.csv: got [[1 2]  [3 4]]"
