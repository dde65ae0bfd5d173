"""What the terminal shows when something goes wrong."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from simsc.cli import app
from simsc.cli.views import progress_bar, training_listener
from simsc.errors import DataError


def screen() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def fail_early(console: Console) -> None:
    with progress_bar(console) as progress:
        progress.add_task("images", total=None, note="")
        raise DataError("no such file")


def test_an_error_before_the_first_progress_leaves_no_bar() -> None:
    console = screen()
    with pytest.raises(DataError):
        fail_early(console)
    assert "images" not in console.file.getvalue()
    assert "0:00:00" not in console.file.getvalue()


def test_a_bar_is_there_as_soon_as_its_length_is_known() -> None:
    console = screen()
    with progress_bar(console) as progress:
        task = progress.add_task("images", total=None, note="")
        progress.update(task, completed=2, total=4)
    assert "images" in console.file.getvalue()
    assert "2/4" in console.file.getvalue()


def test_an_interrupted_training_says_how_to_go_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), training_listener(tmp_path / "run", True, False, resumable=True):
        raise KeyboardInterrupt
    assert f"{tmp_path / 'run'} is not finished: the same command with --resume" in capsys.readouterr().err
    with pytest.raises(DataError), training_listener(tmp_path / "run", True, False, resumable=True):
        raise DataError("no such file")
    assert "--resume" not in capsys.readouterr().err


def test_train_says_it_and_can_do_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from simsc.training.trainer import Trainer

    step = Trainer._train_step

    def interrupted(self: Trainer, *rest: object) -> None:
        step(self, *rest)  # type: ignore[arg-type]
        if self.step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Trainer, "_train_step", interrupted)
    out = tmp_path / "run"
    changes = ("image_size=64", "max_pairs=8", "weights=random", "cache=memory")
    arguments = ["train", "--preset", "resnet50", "--data", "scenes", "--epochs", "1", "--out", str(out)]
    arguments += [part for item in changes for part in ("--set", item)]
    first = CliRunner().invoke(app, arguments)
    assert "the same command with --resume goes on" in first.output
    assert not (out / "result.json").exists()
    again = CliRunner().invoke(app, [*arguments, "--resume"])
    assert again.exit_code == 0
    assert (out / "result.json").exists()
