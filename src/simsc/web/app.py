"""The application: what every request has to pass, the API, the page, and errors as one sentence of JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import simsc
from simsc._version import __version__
from simsc.errors import SimscError, explain
from simsc.web.engine import Opener
from simsc.web.routes import build_service, router
from simsc.web.schemas import WebError
from simsc.web.settings import MEGABYTE, Settings

if TYPE_CHECKING:
    from simsc.bulk.index import Index

STATIC = Path(__file__).parent / "static"
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


def create_app(settings: Settings, opener: Opener | None = None, index: Index | None = None) -> FastAPI:
    """The web application.

    Args:
        settings: models on offer, and limits.
        opener: loads a model by name; by default ``simsc.load``.
        index: a collection in which points can be searched.
    """
    app = FastAPI(
        lifespan=_lifespan,
        title="simsc",
        version=__version__,
        description="Semantic correspondence between two images: upload both, ask where points lie.",
        docs_url=None,  # the framework's own pages load scripts from elsewhere; /docs is ours
        redoc_url=None,
    )
    app.state.service = build_service(settings, opener or simsc.load, index)
    app.include_router(router)
    app.add_api_route("/", _page, include_in_schema=False)
    app.add_api_route("/docs", _reference, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(SimscError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_mistake)
    app.add_middleware(Guard, settings=settings)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Threads for all that may wait at once: a short question must not wait for a thread behind long ones."""
    current_default_thread_limiter().total_tokens = app.state.service.settings.max_waiting + 40
    yield


async def _page() -> FileResponse:
    return FileResponse(STATIC / "index.html")


async def _reference() -> FileResponse:
    return FileResponse(STATIC / "reference.html")


async def on_error(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001 - the signature is fixed
    """One sentence of JSON for every error that is meant for the user."""
    status, code = (error.status, error.code) if isinstance(error, WebError) else (400, "bad-request")
    return _problem(status, code, str(error))


async def on_invalid(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """One sentence; the input is not echoed, it may hold what JSON cannot say (NaN)."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return _problem(422, "invalid", f"{place}: {first['msg']}")


async def _on_http(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    assert isinstance(error, HTTPException)
    codes = {404: "not-found", 413: "too-large"}
    return _problem(error.status_code, codes.get(error.status_code, "bad-request"), str(error.detail))


async def _on_mistake(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """Whatever else happens: memory that is used up will be free again; the rest is ours and is in the log."""
    if isinstance(error, MemoryError) or "memory" in (explain(error) or ""):
        return _problem(503, "busy", "the server has no memory for this now; try again, or with a smaller image")
    return _problem(500, "internal", "the server made a mistake; its log says more")


def _problem(status: int, code: str, detail: str) -> JSONResponse:
    shown = detail.encode("utf-8", "replace").decode("utf-8")  # may quote half a character of the request
    headers = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse({"detail": shown, "code": code}, status_code=status, headers=headers)


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
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self.settings.allows_host(host):
            await _refuse(send, 421, "wrong-host", "this server does not answer to that host name")
        elif _is_foreign(headers, host, scope["method"]):
            await _refuse(send, 403, "foreign-origin", "requests from pages of other origins are refused")
        elif _declared_length(headers) > self._limit(scope["path"]):
            await _refuse(send, 413, "too-large", _too_large(self._limit(scope["path"])))
        else:
            limited = _limited(receive, self._limit(scope["path"]), self.settings.body_seconds)
            await self.app(scope, limited, _with_headers(send))

    def _limit(self, path: str) -> int:
        files = {"/api/images": 1, "/api/match-images": 2}.get(path, 0)
        return files * self.settings.max_upload + _ENVELOPE if files else MEGABYTE


def _is_foreign(headers: Headers, host: str, method: str) -> bool:
    """Whether a browser sends this for a page of another site.

    ``Origin`` says so, but is left out of some requests; then ``Sec-Fetch-Site`` or ``Referer`` says it. Programs that
    are no browsers send none of them, and no site can make them send anything.
    """
    origin, site, referer = headers.get("origin"), headers.get("sec-fetch-site"), headers.get("referer")
    if origin is not None:
        return origin.partition("://")[2] != host
    if method in ("GET", "HEAD", "OPTIONS"):
        return False  # changes nothing; a link from elsewhere to the page is welcome
    if site is not None:
        return site not in ("same-origin", "none")
    return referer is not None and urlsplit(referer).netloc != host


def _limited(receive: Receive, limit: int, seconds: float) -> Receive:
    received, complete = 0, False

    async def counted() -> Message:
        nonlocal received, complete
        if complete:  # what else may come is the end of the connection, for which one may wait long
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), seconds)
        except asyncio.TimeoutError:
            raise HTTPException(408, f"nothing of the request arrived for {seconds:g} seconds") from None
        complete = not message.get("more_body", False)
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
    return int(length[:20]) if length.isdecimal() else 0


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit / MEGABYTE:.3g} MB"
