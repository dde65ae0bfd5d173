"""What a person sees in the terminal: progress of long computations, and results as tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from simsc.errors import ConfigError
from simsc.training.listener import Listener, Listeners

if TYPE_CHECKING:
    from simsc.evaluation.scoring import Rates, Score
    from simsc.matcher.calibrating import Quality


STATUS_LOOKS = {
    "sure": ("●", "bold green"),
    "unsure": ("○", "yellow"),
    "none": ("\N{MULTIPLICATION SIGN}", "bright_black"),
}
"""Sign and colour of each status in a table: the sign says the same where there is no colour."""


def status_text(status: str) -> Text:
    """A status in its colour.

    >>> status_text("sure").plain
    '● sure'
    """
    sign, style = STATUS_LOOKS[status]
    return Text(f"{sign} {status}", style=style)


class Bars(Progress):
    """Progress bars, each from the moment that its length is known: an error before that leaves none behind."""

    def get_renderables(self) -> Iterator[RenderableType]:
        """What is on the screen."""
        if begun := [task for task in self.tasks if task.total is not None]:
            yield self.make_tasks_table(begun)


def progress_bar(console: Console | None = None) -> Progress:
    """The project's progress bar, on standard error."""
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console or Console(stderr=True),
    )


class ListenerContext(Listeners):
    """Listeners that are opened and closed together; an interrupted training says how to go on.

    Args:
        members: the listeners.
        resumed: what continues the training, as a sentence; empty to say nothing.
    """

    def __init__(self, members: Sequence[Listener], resumed: str = "") -> None:
        super().__init__(members)
        self.resumed = resumed

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
        if self.resumed and kind is not None and issubclass(kind, KeyboardInterrupt):
            print(self.resumed, file=sys.stderr)


class TerminalView(Listener):
    """Progress bars with loss, rate, both temperatures, pairs per second and time left."""

    def __init__(self) -> None:
        self.progress = progress_bar()
        self.task: TaskID | None = None
        self.run_task: TaskID | None = None
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
        """Start the bar of an epoch, and move the one of the whole run, which tells the time left."""
        if self.run_task is None:
            self.run_task = self.progress.add_task("run", total=epochs * batches, note="")
        self.progress.update(self.run_task, total=epochs * batches, completed=epoch * batches + done)
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
        """Move the bars."""
        if self.task is not None and self.run_task is not None:
            self.progress.update(self.task, completed=done)
            self.progress.advance(self.run_task)

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


def training_listener(folder: Path, main: bool, tensorboard: bool, *, resumable: bool = False) -> ListenerContext:
    """What the main process shows and writes while training; the others are silent.

    Where the command is ``resumable``, by an option of its own, an interrupted one says so.
    """
    members: list[Listener] = []
    if main:
        members.append(TerminalView() if sys.stderr.isatty() else LineView())
    if main and tensorboard:
        members.append(TensorBoardView(folder))
    sentence = f"{folder} is not finished: the same command with --resume goes on where it stopped"
    resumed = sentence if main and resumable else ""
    return ListenerContext(members, resumed)


class LineView(Listener):
    """Plain lines for log files, training and cache at most one in ``seconds``."""

    def __init__(self, seconds: float = 20) -> None:
        self.seconds, self._next = seconds, 0.0
        self._began: tuple[float, float] | None = None  # epochs done, and the clock, when this process began
        self._epoch, self._epochs, self._batches, self._done = 0, 0, 1, 0

    def on_cache(self, done: int, total: int) -> None:
        """Say how far the trunk cache is."""
        self._print(f"trunk cache {done}/{total}", always=done == total)

    def on_epoch(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        """Remember where this process began, to estimate the time left."""
        self._epoch, self._epochs, self._batches, self._done = epoch, epochs, batches, done
        if self._began is None:
            self._began = (epoch + done / batches, time.monotonic())

    def on_batch(self, done: int) -> None:
        """Remember how far the epoch is."""
        self._done = done

    def on_step(self, record: dict[str, Any]) -> None:
        """Print the averages since the last record."""
        self._print(
            f"epoch {record['epoch'] + 1} step {record['step']} loss {record['loss']:.4f} rate {record['rate']:.1e} "
            f"β {record['beta_source']:.3f} {record['beta_target']:.3f} → {record['temperature']:.4f} "
            f"{record['pairs_per_second']:.1f} pairs/s {self._time_left()}"
        )

    def on_validation(self, record: dict[str, Any], best: bool) -> None:
        """Print the figures."""
        pck = " ".join(f"@{alpha} {value:.1f}" for alpha, value in record["val"].items())
        self._print(f"epoch {record['epoch']} validation PCK {pck}{' best' if best else ''}", always=True)

    def _time_left(self) -> str:
        """In epochs, for their number of batches may vary."""
        now = self._epoch + self._done / self._batches
        if self._began is None or now <= self._began[0]:
            return ""
        first, started = self._began
        seconds = int((time.monotonic() - started) / (now - first) * (self._epochs - now))
        return f"{timedelta(seconds=seconds)} left"

    def _print(self, text: str, always: bool = False) -> None:
        if always or time.monotonic() >= self._next:
            self._next = time.monotonic() + self.seconds
            print(text, file=sys.stderr, flush=True)


def print_score(score: Score, title: str = "", subsets: Mapping[str, Score] | None = None, note: str = "") -> None:
    """Print PCK per image, per point and per category, and of subsets by name."""
    console = Console()
    head = " · ".join(filter(None, (title, score.protocol)))
    console.print(f"[bold]{head}[/bold] · threshold {score.threshold}", highlight=False)
    console.print(_summary(score, subsets or {}))
    console.print(_categories(score))
    console.print(f"effective temperature {score.temperature.mean:.4f} ± {score.temperature.std:.4f}", highlight=False)
    if note:
        console.print(note, style="yellow", highlight=False, markup=False)


def _summary(score: Score, subsets: Mapping[str, Score]) -> Table:
    table = _table("PCK (%)", score, "pairs", "points")
    for name, part in {"official" if subsets else "": score, **subsets}.items():
        for kind, rates in (("per image", part.per_image), ("per point", part.per_point)):
            _add_row(table, f"{name} {kind}".strip(), rates, f"{part.pairs:,}", f"{part.points:,}")
    return table


def _categories(score: Score) -> Table:
    table = _table("category, per image", score)
    for name, rates in score.per_category.items():
        _add_row(table, name, rates)
    return table


def _table(title: str, score: Score, *columns: str) -> Table:
    table = Table(title)
    for name in (*columns, *(f"@{alpha}" for alpha in score.per_image)):
        table.add_column(name, justify="right")
    return table


def _add_row(table: Table, title: str, values: Rates, *cells: str) -> None:
    table.add_row(title, *cells, *(f"{value:.1f}" for value in values.values()))


def print_quality(quality: Quality) -> None:
    """The figures of a calibration."""
    table = Table(
        "figure", "value", title=f"Calibration on {quality.points:,} points, {quality.right:.1%} of them right"
    )
    table.add_row("expected calibration error", f"{quality.ece:.3f}")
    table.add_row("AUC right against wrong", f"{quality.auc_right:.3f}")
    table.add_row(
        "  by peak probability / cycle error", f"{quality.auc_right_peak:.3f} / {quality.auc_right_cycle:.3f}"
    )
    table.add_row("  among points with a counterpart", f"{quality.auc_known:.3f}")
    table.add_row("AUC counterpart against none", f"{quality.auc_present:.3f}")
    table.add_row("kept at 90 % precision", f"{quality.kept:.1%}")
    table.add_row("  by peak probability / cycle error", f"{quality.kept_peak:.1%} / {quality.kept_cycle:.1%}")
    Console().print(table)
