"""Run folders of experiments: trained by one process at a time, and copied as a whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

from simsc.errors import ConfigError
from simsc.files import write_json
from simsc.training.config import Config
from simsc.training.run_folder import RunFolder

LOCK = ".lock"
COPYING = ".copying"
"""Ending of a folder that is being copied to, which is not a run yet."""


@contextmanager
def only_process(path: Path) -> Iterator[None]:
    """Let one process train in a folder, where the system has file locks; another one is refused."""
    path.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (path / LOCK).open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when the process ends, however it ends
        except OSError:
            raise ConfigError(f"{path} is being trained by another process; wait until it has ended") from None
        yield


def copy_run(run: RunFolder, wanted: RunFolder, config: Config) -> RunFolder:
    """A copy of a run that has yet to reach the end of ``config``, at the wanted place or, if that is taken, beside it.

    The copy gets its name when it is complete, configuration included: a process killed before that leaves nothing
    that is taken for a run, and one killed after that leaves a run that the next call continues.
    """
    place = _unused(wanted.path)
    temporary = place.with_name(place.name + COPYING)
    with only_process(temporary):
        _clear(temporary)
        ignored = shutil.ignore_patterns("measurements", "result.json", LOCK)
        shutil.copytree(run.path, temporary, ignore=ignored, dirs_exist_ok=True)
        write_json(temporary / "config.json", config.to_dict())
        temporary.rename(place)
    return RunFolder(place)


def _unused(path: Path) -> Path:
    """The path, or the first numbered one beside it that does not exist."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain([path], numbered) if not each.exists())


def _clear(folder: Path) -> None:
    """Remove what a copy that was interrupted has left."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()
