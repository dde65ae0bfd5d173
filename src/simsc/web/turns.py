"""Who computes next: one at a time, short questions before long ones, and no more waiting than can be served."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from simsc.web.schemas import Busy

CLICK, ENCODE, DENSE = 0.0, 2.0, 4.0
"""Seconds that a request lets others go first: a click overtakes the encodings of the last two seconds."""


class Turns:
    """A queue before something that only one request at a time may use.

    The network uses every core, so that two computations at once would only make both late, and memory stays that of
    one request. Kinds of requests are ordered by their *handicap* on top of the time at which they came, so that
    nobody waits for ever behind a stream of short questions.

    Args:
        patience: seconds after which a waiting request is told that the server is busy.
        most_waiting: requests that may wait; one more is refused at once.
    """

    def __init__(self, patience: float, most_waiting: int) -> None:
        self.patience, self.most_waiting = patience, most_waiting
        self._waiting: list[tuple[float, int]] = []
        self._numbers = count()
        self._taken = False
        self._change = threading.Condition()

    @contextmanager
    def turn(self, handicap: float = CLICK) -> Iterator[None]:
        """Wait for a turn, and hold it."""
        ticket = (time.monotonic() + handicap, next(self._numbers))
        with self._change:
            if len(self._waiting) >= self.most_waiting:
                raise Busy("the server is busy; try again in a moment")
            heapq.heappush(self._waiting, ticket)
            came = self._change.wait_for(lambda: not self._taken and self._waiting[0] == ticket, self.patience)
            self._waiting.remove(ticket)
            heapq.heapify(self._waiting)
            if not came:
                self._change.notify_all()  # somebody behind this one may be next
                raise Busy("the server is busy; try again in a moment")
            self._taken = True
        try:
            yield
        finally:
            with self._change:
                self._taken = False
                self._change.notify_all()
