"""Who wants to know how a run is going derives from this; the default says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Listener:
    """Receives the events of a training run."""

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
