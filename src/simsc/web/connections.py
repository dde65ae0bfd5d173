"""Connections that do not keep a place for ever: who connects has to ask, and who asks has to finish."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""Time for the head of a request, from the connection or from its first byte."""
MOST_CONNECTIONS = 512
"""Further clients are told to come again."""


def serve(app: Any, host: str, port: int) -> None:
    """Answer requests until the process is asked to stop."""
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_level="info",
        server_header=False,
        http=PatientProtocol,
        limit_concurrency=MOST_CONNECTIONS,
    )


class PatientProtocol(H11Protocol):
    """HTTP/1.1 whose connections are closed if no request is complete in time; uvicorn itself would wait for ever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Some bytes came: perhaps a head, perhaps a part of one."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        if self._is_answering():
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _give_up(self) -> None:
        self._deadline = None
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.close()

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
