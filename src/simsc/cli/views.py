"""What a person sees of a long computation in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from simsc.engine.listener import Listener, Listeners
from simsc.errors import ConfigError


def progress_bar(console: Console | None = None) -> Progress:
    """The project's progress bar, on standard error."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console or Console(stderr=True),
    )


class ListenerContext(Listeners):
    """Listeners that are opened and closed together."""

    def __enter__(self) -> ListenerContext:
        for member in self.members:
            if hasattr(member, "__enter__"):
                member.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            if hasattr(member, "__exit__"):
                member.__exit__(kind, error, trace)


class TerminalView(Listener):
    """Progress bars with loss, rate, both temperatures, pairs per second and time left."""

    def __init__(self) -> None:
        self.progress = progress_bar()
        self.task: TaskID | None = None
        self.cache_task: TaskID | None = None

    def __enter__(self) -> TerminalView:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def on_cache(self, done: int, total: int) -> None:
        """Show how far the trunk cache is."""
        if self.cache_task is None:
            self.cache_task = self.progress.add_task("trunk cache", total=total, note="images")
        self.progress.update(self.cache_task, completed=done)

    def on_epoch(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        """Start the bar of an epoch."""
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(f"epoch {epoch + 1}/{epochs}", total=batches, completed=done, note="")

    def on_step(self, record: dict[str, Any]) -> None:
        """Update the bar of the epoch."""
        if self.task is None:
            return
        note = (
            f"loss {record['loss']:.3f}  rate {record['rate']:.1e}  β {record['beta_source']:.3f} "
            f"{record['beta_target']:.3f} → {record['temperature']:.4f}  {record['pairs_per_second']:.1f} pairs/s"
        )
        self.progress.update(self.task, note=note)

    def on_batch(self, done: int) -> None:
        """Move the bar."""
        if self.task is not None:
            self.progress.update(self.task, completed=done)

    def on_validation(self, record: dict[str, Any], best: bool) -> None:
        """Print a line that stays."""
        pck = "  ".join(f"@{alpha} {value:.1f}" for alpha, value in record["val"].items())
        star = "  *" if best else ""
        self.progress.console.print(
            f"epoch {record['epoch']:>3}  validation PCK {pck}  temperature {record['val_temperature']:.4f}{star}"
        )


class TensorBoardView(Listener):
    """Scalars for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError("--tensorboard needs the extra 'logging': pip install 'simsc[logging]'") from None
        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def on_step(self, record: dict[str, Any]) -> None:
        """Write the step's scalars."""
        for key in ("loss", "ce", "reg", "beta_source", "beta_target", "temperature", "rate", "pairs_per_second"):
            self.writer.add_scalar(f"train/{key}", record[key], record["step"])

    def on_validation(self, record: dict[str, Any], best: bool) -> None:  # noqa: ARG002
        """Write the validation's scalars."""
        for alpha, value in record["val"].items():
            self.writer.add_scalar(f"val/pck@{alpha}", value, record["step"])


def training_listener(folder: Path, main: bool, tensorboard: bool) -> ListenerContext:
    """What the main process shows and writes while training; the others are silent."""
    members: list[Listener] = []
    if main:
        members.append(TerminalView() if sys.stderr.isatty() else LineView())
    if main and tensorboard:
        members.append(TensorBoardView(folder))
    return ListenerContext(members)


class LineView(Listener):
    """Plain lines, for log files."""

    def on_cache(self, done: int, total: int) -> None:
        """Print every tenth part."""
        if done == total or done * 10 // total > (done - 16) * 10 // total:
            self._print(f"trunk cache {done}/{total}")

    def on_step(self, record: dict[str, Any]) -> None:
        """Print every tenth record."""
        if record["step"] % 200 < 20:
            self._print(
                f"epoch {record['epoch'] + 1} step {record['step']} loss {record['loss']:.4f} "
                f"temperature {record['temperature']:.4f} {record['pairs_per_second']:.1f} pairs/s"
            )

    def on_validation(self, record: dict[str, Any], best: bool) -> None:
        """Print the figures."""
        self._print(f"epoch {record['epoch']} validation {record['val']} {'best' if best else ''}")

    @staticmethod
    def _print(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
