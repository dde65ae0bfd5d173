"""What every request has to pass, and what every answer carries."""

from __future__ import annotations

import json
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simsc.web.settings import MEGABYTE, Settings

_POLICY = (
    "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ENVELOPE = 64 * 1024  # what a form adds around its files


class Guard:
    """Refuses foreign hosts and origins, and bodies that grow beyond the limit while they stream in.

    The name in ``Host`` must be one of the server's: otherwise a page elsewhere could point its own DNS name here and
    read the answers. A browser that sends a form for another site says so in ``Origin``.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.settings.allows_host(host):
            await _refuse(send, 421, "wrong-host", "this server does not answer to that host name")
        elif origin is not None and origin.partition("://")[2] != host:
            await _refuse(send, 403, "foreign-origin", "requests from pages of other origins are refused")
        elif _declared_length(headers) > self._limit(scope["path"]):
            await _refuse(send, 413, "too-large", _too_large(self._limit(scope["path"])))
        else:
            await self.app(scope, _limited(receive, self._limit(scope["path"])), _with_headers(send))

    def _limit(self, path: str) -> int:
        files = {"/api/images": 1, "/api/match-images": 2}.get(path, 0)
        return files * self.settings.max_upload + _ENVELOPE if files else MEGABYTE


def _limited(receive: Receive, limit: int) -> Receive:
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise HTTPException(413, _too_large(limit))
        return message

    return counted


def _with_headers(send: Send) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sender


async def _refuse(send: Send, status: int, code: str, detail: str) -> None:
    body = json.dumps({"detail": detail, "code": code}).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    sender = _with_headers(send)
    await sender({"type": "http.response.start", "status": status, "headers": headers})
    await sender({"type": "http.response.body", "body": body})


def _declared_length(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isdecimal() else 0


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit / MEGABYTE:.3g} MB"
