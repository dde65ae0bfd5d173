"""Between a run and the world: who wants to know how it is going, and who asks it to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any


class Listener:
    """Receives the events of a training run; this one says nothing."""

    def on_cache(self, done: int, total: int) -> None:
        """Trunk states of ``done`` of ``total`` images are cached."""

    def on_epoch(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        """An epoch (0-based) begins, ``done`` of whose ``batches`` were done before a resume."""

    def on_batch(self, done: int) -> None:
        """``done`` batches of the epoch are done."""

    def on_step(self, record: dict[str, Any]) -> None:
        """A line of training metrics was written."""

    def on_validation(self, record: dict[str, Any], best: bool) -> None:
        """A line of validation metrics was written."""

    def on_end(self, summary: dict[str, Any]) -> None:
        """The run has ended."""


class Listeners(Listener):
    """Passes each event on to several listeners."""

    def __init__(self, members: Sequence[Listener]) -> None:
        self.members = tuple(members)

    def on_cache(self, done: int, total: int) -> None:
        """See :class:`Listener`."""
        self._tell("on_cache", done, total)

    def on_epoch(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        """See :class:`Listener`."""
        self._tell("on_epoch", epoch, epochs, batches, done)

    def on_batch(self, done: int) -> None:
        """See :class:`Listener`."""
        self._tell("on_batch", done)

    def on_step(self, record: dict[str, Any]) -> None:
        """See :class:`Listener`."""
        self._tell("on_step", record)

    def on_validation(self, record: dict[str, Any], best: bool) -> None:
        """See :class:`Listener`."""
        self._tell("on_validation", record, best)

    def on_end(self, summary: dict[str, Any]) -> None:
        """See :class:`Listener`."""
        self._tell("on_end", summary)

    def _tell(self, event: str, *arguments: Any) -> None:
        for member in self.members:
            getattr(member, event)(*arguments)


class StopRequest:
    """Ctrl-C and termination end a run between two steps, after its state is saved.

    While open, the first SIGINT or SIGTERM only sets ``wanted``; the second interrupts at once.
    """

    def __init__(self) -> None:
        self.wanted = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
