"""The application: API, page, and errors as one sentence of JSON."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

import simsc
from simsc._version import __version__
from simsc.errors import SimscError
from simsc.web.engine import Opener
from simsc.web.failures import WebError
from simsc.web.guard import Guard
from simsc.web.routes import router
from simsc.web.service import build_service
from simsc.web.settings import Settings

STATIC = Path(__file__).parent / "static"


def create_app(settings: Settings, opener: Opener | None = None) -> FastAPI:
    """The web application.

    Args:
        settings: models on offer, and limits.
        opener: loads a model by name; by default ``simsc.load``.
    """
    app = FastAPI(
        title="simsc",
        version=__version__,
        description="Semantic correspondence between two images: upload both, ask where points lie.",
        docs_url=None,  # the framework's own pages load scripts from elsewhere; /docs is ours
        redoc_url=None,
    )
    app.state.service = build_service(settings, opener or simsc.load)
    app.include_router(router)
    app.add_api_route("/", _page, include_in_schema=False)
    app.add_api_route("/docs", _reference, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(SimscError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_middleware(Guard, settings=settings)
    return app


async def _page() -> FileResponse:
    return FileResponse(STATIC / "index.html")


async def _reference() -> FileResponse:
    return FileResponse(STATIC / "reference.html")


async def _on_error(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001 - the signature is fixed
    status, code = (error.status, error.code) if isinstance(error, WebError) else (400, "bad-request")
    return _problem(status, code, str(error))


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """One sentence; the input is not echoed, it may hold what JSON cannot say (NaN)."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return _problem(422, "invalid", f"{place}: {first['msg']}")


async def _on_http(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    assert isinstance(error, HTTPException)
    codes = {404: "not-found", 413: "too-large"}
    return _problem(error.status_code, codes.get(error.status_code, "bad-request"), str(error.detail))


def _problem(status: int, code: str, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail, "code": code}, status_code=status)
