"""Runs that experiments share: a configuration is trained once, whoever asked for it first.

A folder is trained by one process at a time, and copied as a whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from simsc.errors import SimscError
from simsc.experiments.variants import UNESSENTIAL_KEYS
from simsc.files import Lock, write_json
from simsc.models.specs import find_backbone
from simsc.reading import read_json
from simsc.training.config import Config
from simsc.training.monitor import TrainingDiverged
from simsc.training.run_folder import RunFolder

Train = Callable[[Config, Path, Path | None, bool], None]
"""Trains a configuration in a folder: ``(config, folder, data root, resume)``."""

COPYING = ".copying"
"""Ending of a folder that is being copied to, which is not a run yet."""


@dataclass(frozen=True)
class StoredRun:
    """A run folder that was found."""

    folder: RunFolder
    config: Config
    result: dict[str, Any] | None

    @property
    def finished(self) -> bool:
        """Whether it was trained as long as its configuration says; an ended run may have been resumed for longer."""
        if self.result is None:
            return False
        if self.stopped:
            return True
        return self.config.patience > 0 or self.result["epochs"] >= self.config.epochs

    @property
    def stopped(self) -> bool:
        """Whether it diverged: more epochs would not take it further."""
        return "stopped" in (self.result or {})

    def answers(self, wanted: Config) -> bool:
        """Whether its best model is what ``wanted`` would give: a longer run is, if its best epoch came in time."""
        if not self.finished or (self.config.epochs < wanted.epochs and not self.stopped):
            return False
        return self.config.epochs == wanted.epochs or (self.result or {})["best_epoch"] <= wanted.epochs


class RunStore:
    """All runs below a folder.

    Args:
        base: looked through for finished runs, also ones trained by hand; new ones are put here.
        train: does the training.
    """

    def __init__(self, base: Path, train: Train) -> None:
        self.base, self.train = base, train

    def ensure(self, config: Config, root: Path | None = None) -> RunFolder:
        """The finished run of a configuration: found, continued, or trained now; one that diverged is finished too."""
        runs = [run for run in self._runs() if same_training(run.config, config)]
        # Equal epochs before longer ones: those also have the learning curves that were asked for.
        for run in sorted(runs, key=lambda run: run.config.epochs):
            if run.answers(config):
                return run.folder
        begun = self._unfinished(runs, config) or self._copy_of_shorter(runs, config)
        if begun is None:  # recording gradients costs little, and lets any experiment use the run
            folder, config = self._place(config), config.updated({"track_gradients": True})
        else:
            folder, config = begun.folder, begun.config.updated({"epochs": config.epochs})
        with Lock(folder.path, folder=True), suppress(TrainingDiverged):  # the run's result says so
            self.train(config, folder.path, root, begun is not None)
        return folder

    def _unfinished(self, runs: Sequence[StoredRun], wanted: Config) -> StoredRun | None:
        """A run to continue where it stopped."""
        for run in runs:
            if not run.finished and run.config.epochs == wanted.epochs:
                return run
        return None

    def _copy_of_shorter(self, runs: Sequence[StoredRun], wanted: Config) -> StoredRun | None:
        """A copy of the longest run that is too short, to be continued; that run itself stays as it is."""
        short = [run for run in runs if run.finished and run.folder.last.exists() and not run.config.patience]
        short = [run for run in short if run.config.epochs < wanted.epochs]
        if not short:
            return None
        longest = max(short, key=lambda run: run.config.epochs)
        config = longest.config.updated({"epochs": wanted.epochs})
        return StoredRun(copy_run(longest.folder, self._place(wanted), config), config, None)

    def _runs(self) -> Iterator[StoredRun]:
        for path in sorted(self.base.rglob("config.json")):
            run = _read_run(path.parent)
            if run is not None and path.parent.suffix != COPYING:
                yield run

    def _place(self, config: Config) -> RunFolder:
        kept = {key: value for key, value in config.to_dict().items() if key not in UNESSENTIAL_KEYS}
        digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:8]
        words = [config.data, config.backbone, config.temperature, f"s{config.seed}", f"e{config.epochs}", digest]
        if config.head != "none":
            words.insert(2, config.head)
        return RunFolder(self.base / "-".join(words).replace(":", "").replace("/", "_"))


def same_training(stored: Config, wanted: Config) -> bool:
    """Whether two configurations compute the same, but for the number of epochs."""
    if wanted.track_gradients and not stored.track_gradients:
        return False
    return _essence(stored) == _essence(wanted)


def copy_run(run: RunFolder, wanted: RunFolder, config: Config) -> RunFolder:
    """A copy of a run that has yet to reach the end of ``config``, at the wanted place or, if that is taken, beside it.

    The copy gets its name when it is complete, configuration included: a process killed before that leaves nothing
    that is taken for a run, and one killed after that leaves a run that the next call continues.
    """
    place = _unused(wanted.path)
    temporary = place.with_name(place.name + COPYING)
    with Lock(place):  # beside it, for the folder that is copied to gets another name
        shutil.rmtree(temporary, ignore_errors=True)  # what a copy that was interrupted has left
        ignored = shutil.ignore_patterns("measurements", "result.json", ".*")
        shutil.copytree(run.path, temporary, ignore=ignored, dirs_exist_ok=True)
        write_json(temporary / "config.json", config.to_dict())
        temporary.rename(place)
    return RunFolder(place)


def _essence(config: Config) -> dict[str, Any]:
    values = {key: value for key, value in config.to_dict().items() if key not in UNESSENTIAL_KEYS}
    with suppress(SimscError):  # a backbone of the hub has no other names
        values["backbone"] = find_backbone(config.backbone).name
    return values


def _read_run(path: Path) -> StoredRun | None:
    """The run in a folder; None if it is not one that this version understands."""
    try:
        config = Config().updated(read_json(path / "config.json"))
        folder = RunFolder(path)
        result = read_json(folder.result, finite=False) if folder.result.exists() else None
    except (ValueError, AttributeError, SimscError):
        return None
    return StoredRun(folder, config, result if folder.best.exists() else None)


def _unused(path: Path) -> Path:
    """The path, or the first numbered one beside it that does not exist."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain([path], numbered) if not each.exists())
