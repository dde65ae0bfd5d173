"""The run store: a configuration is trained once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simsc.errors import ConfigError
from simsc.experiments.measurements import Subject
from simsc.experiments.runs import RunStore, same_training
from simsc.experiments.variants import base_config, variant
from simsc.training.config import Config
from simsc.training.monitor import TrainingDiverged
from simsc.training.presets import load_preset
from simsc.training.run_folder import RunFolder

TINY = Config(data="scenes", weights="random", epochs=3)
HOLD = """
import sys, time
from simsc.files import Lock
with Lock(sys.argv[1], folder=True):
    print("held", flush=True)
    time.sleep(60)
"""


class Trainings:
    """Stands for the training: writes what a finished run leaves, and counts."""

    def __init__(self, best_epoch: int = 2) -> None:
        self.calls: list[tuple[Config, Path, bool]] = []
        self.best_epoch = best_epoch

    def __call__(self, config: Config, folder: Path, root: Path | None, resume: bool) -> None:
        self.calls.append((config, folder, resume))
        write_run(folder, config, finished=True, best_epoch=self.best_epoch)


def write_run(folder: Path, config: Config, finished: bool, best_epoch: int = 2) -> RunFolder:
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder)
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    run.best.write_text("best")
    run.last.write_text("last")
    if finished:
        run.result.write_text(json.dumps({"epochs": config.epochs, "best_epoch": best_epoch}))
    return run


@pytest.fixture
def trainings() -> Trainings:
    return Trainings()


def test_never_trains_the_same_configuration_twice(tmp_path: Path, trainings: Trainings) -> None:
    first = RunStore(tmp_path, trainings).ensure(TINY)
    again = RunStore(tmp_path, trainings).ensure(TINY)
    assert first == again
    assert len(trainings.calls) == 1


def test_a_training_that_diverges_is_an_answer_for_any_longer_budget(tmp_path: Path) -> None:
    calls = []

    def diverges(config: Config, folder: Path, root: Path | None, resume: bool) -> None:
        calls.append(folder)
        run = write_run(folder, config, finished=False)
        run.result.write_text(json.dumps({"epochs": 1, "best_epoch": 0, "stopped": "dead features"}))
        raise TrainingDiverged("dead features")

    store = RunStore(tmp_path, diverges)
    first = store.ensure(TINY)
    assert store.ensure(TINY) == store.ensure(TINY.updated({"epochs": 9})) == first
    assert len(calls) == 1
    assert Subject(TINY, first).label("β = 1") == "β = 1, stopped early"


def test_how_a_run_is_executed_does_not_matter(tmp_path: Path, trainings: Trainings) -> None:
    store = RunStore(tmp_path, trainings)
    store.ensure(TINY)
    store.ensure(TINY.updated({"cache": "none", "log_every": 1}))
    assert len(trainings.calls) == 1


@pytest.mark.parametrize("change", [{"seed": 1}, {"temperature": "fixed:1"}, {"rate": 1e-3}, {"patience": 2}])
def test_another_configuration_is_another_training(tmp_path: Path, trainings: Trainings, change: dict) -> None:
    store = RunStore(tmp_path, trainings)
    assert store.ensure(TINY) != store.ensure(TINY.updated(change))
    assert len(trainings.calls) == 2


def test_runs_trained_by_hand_are_used(tmp_path: Path, trainings: Trainings) -> None:
    by_hand = write_run(tmp_path / "some" / "name", TINY, finished=True)
    assert RunStore(tmp_path, trainings).ensure(TINY) == by_hand
    assert not trainings.calls


def test_an_unfinished_run_is_resumed(tmp_path: Path, trainings: Trainings) -> None:
    begun = write_run(tmp_path / "begun", TINY, finished=False)
    assert RunStore(tmp_path, trainings).ensure(TINY) == begun
    assert trainings.calls == [(TINY, begun.path, True)]


def test_a_run_that_somebody_is_training_is_left_alone(tmp_path: Path, trainings: Trainings) -> None:
    """Also one by hand, and whatever the clock says: its lock says it."""
    begun = write_run(tmp_path / "begun", TINY, finished=False)
    with subprocess.Popen([sys.executable, "-c", HOLD, begun.path], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ConfigError, match=f"begun is in use by process {other.pid}"):
            RunStore(tmp_path, trainings).ensure(TINY)
        other.kill()
    assert not trainings.calls


def test_a_shorter_run_is_continued_in_a_copy(tmp_path: Path, trainings: Trainings) -> None:
    short = write_run(tmp_path / "short", TINY, finished=True)
    longer = RunStore(tmp_path, trainings).ensure(TINY.updated({"epochs": 10}))
    assert longer != short
    assert [(config.epochs, resume) for config, _, resume in trainings.calls] == [(10, True)]
    assert longer.last.read_text() == "last"
    assert json.loads((short.path / "config.json").read_text())["epochs"] == 3


def test_a_copy_that_was_interrupted_is_made_again(
    tmp_path: Path, trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, wanted = write_run(tmp_path / "short", TINY, finished=True), TINY.updated({"epochs": 10})

    def interrupted(source: Path, target: Path, **_: object) -> None:
        Path(target).mkdir(exist_ok=True)
        for name in ("config.json", "half-a-file"):
            (Path(target) / name).write_text((short.path / "config.json").read_text())
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copytree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            RunStore(tmp_path, trainings).ensure(wanted)
    (left,) = (path for path in tmp_path.iterdir() if path != short.path)
    longer = RunStore(tmp_path, trainings).ensure(wanted)
    assert [(folder, resume) for _, folder, resume in trainings.calls] == [(longer.path, True)]
    assert longer.last.read_text() == "last"
    assert not (longer.path / "half-a-file").exists()
    assert not left.exists()


def test_a_copy_whose_training_never_began_is_continued(tmp_path: Path, trainings: Trainings) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    write_run(tmp_path / "short", TINY, finished=True)
    wanted = TINY.updated({"epochs": 10})
    with pytest.raises(KeyboardInterrupt):
        RunStore(tmp_path, killed).ensure(wanted)
    longer = RunStore(tmp_path, trainings).ensure(wanted)
    assert trainings.calls == [(wanted, longer.path, True)]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_copy_leaves_a_folder_of_its_name_alone(tmp_path: Path, trainings: Trainings) -> None:
    wanted = TINY.updated({"epochs": 10})
    store = RunStore(tmp_path, trainings)
    other = store.ensure(wanted)
    (other.path / "config.json").write_text("{}")  # no longer a run of the wanted configuration
    write_run(tmp_path / "short", TINY, finished=True)
    longer = store.ensure(wanted)
    assert longer.path.name == f"{other.path.name}-2"
    assert store.ensure(wanted) == longer


@pytest.mark.parametrize(("best_epoch", "trained"), [(3, 0), (4, 1)])
def test_a_longer_run_counts_if_its_best_epoch_came_in_time(tmp_path: Path, best_epoch: int, trained: int) -> None:
    trainings = Trainings()
    write_run(tmp_path / "long", TINY.updated({"epochs": 10}), finished=True, best_epoch=best_epoch)
    RunStore(tmp_path, trainings).ensure(TINY)
    assert len(trainings.calls) == trained


def test_gradients_need_a_run_that_recorded_them(tmp_path: Path, trainings: Trainings) -> None:
    by_hand = write_run(tmp_path / "hand", TINY, finished=True)
    store, recorded = RunStore(tmp_path, trainings), TINY.updated({"track_gradients": True})
    assert store.ensure(TINY) == by_hand
    assert store.ensure(recorded) != by_hand
    store.ensure(recorded)
    assert len(trainings.calls) == 1


def test_new_runs_record_gradients_for_others(tmp_path: Path, trainings: Trainings) -> None:
    store = RunStore(tmp_path, trainings)
    assert store.ensure(TINY) == store.ensure(TINY.updated({"track_gradients": True}))
    assert len(trainings.calls) == 1


@pytest.mark.parametrize("name", ["resnet50", "beta1", "single", "fixed:0.03"])
def test_experiments_want_what_the_presets_train(name: str) -> None:
    wanted = variant(base_config("resnet50", "pfpascal", False, {}), "mlp" if name == "resnet50" else name)
    assert same_training(load_preset(name, "pfpascal"), wanted)


def test_damaged_folders_are_passed_over(tmp_path: Path, trainings: Trainings) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"no_such_key": 1}')
    RunStore(tmp_path, trainings).ensure(TINY)
    assert len(trainings.calls) == 1
