"""The API. Functions without ``async`` run in threads, so that a computation never holds up other answers."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, File, Form, Request, Response, UploadFile
from pydantic import Json

from simsc._version import __version__
from simsc.bulk.places import Place, read_bytes
from simsc.matching import LOCALIZERS
from simsc.web import schemas
from simsc.web.answers import (
    WARP_SIDE,
    image_info,
    match_response,
    reduced,
    reduced_size,
    shown_picture,
    to_coco,
    to_json,
    to_picture,
    warp_picture,
)
from simsc.web.catalogue import describe
from simsc.web.engine import Engine, Opener, Query
from simsc.web.samples import THUMBNAIL, offered_samples, sample_picture
from simsc.web.schemas import NotFound, WebError
from simsc.web.settings import Settings
from simsc.web.store import Decoder, ImageStore, StoredImage, clean_name
from simsc.web.turns import ENCODE

if TYPE_CHECKING:
    from simsc.bulk.index import Index

router = APIRouter(
    prefix="/api",
    responses={
        400: {"model": schemas.Problem, "description": "The request makes no sense."},
        422: {"model": schemas.Problem, "description": "A field is missing, misspelt or out of range."},
    },
)
_GONE: dict[int | str, dict[str, Any]] = {404: {"model": schemas.Problem, "description": "Not here (any more)."}}
_REFUSED: dict[int | str, dict[str, Any]] = {
    503: {"model": schemas.Problem, "description": "Too many requests at once; try again."},
    413: {"model": schemas.Problem, "description": "Too many bytes or pixels."},
    415: {"model": schemas.Problem, "description": "Not an image of an allowed type."},
}
_PNG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}, "description": "A PNG file."}}
_JPEG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/jpeg": {}}, "description": "A JPEG file."}}


@dataclass(frozen=True)
class Service:
    """Limits, images and models; and the collection that can be searched, if there is one."""

    settings: Settings
    store: ImageStore
    engine: Engine
    decoder: Decoder
    index: Index | None = None


def build_service(settings: Settings, opener: Opener, index: Index | None = None) -> Service:
    """An empty store and an engine that loads models when they are first asked for."""
    store = ImageStore(settings.max_images, settings.memory)
    decoder = Decoder(store, settings.max_upload, settings.max_pixels, settings.patience)
    return Service(settings, store, Engine(settings, store, opener), decoder, index)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Server = Annotated[Service, Depends(_service)]
ImageFile = Annotated[UploadFile, File(description="JPEG, PNG, WebP, GIF, BMP or TIFF, recognised by content.")]


@router.get("/health", tags=["server"])
async def health(server: Server) -> schemas.Health:
    """Whether the server answers."""
    return schemas.Health(status="ok", version=__version__, images=len(server.store), indexed=len(server.index or ()))


@router.get("/models", tags=["server"])
def models(server: Server) -> list[schemas.ModelInfo]:
    """The models on offer."""
    default = server.engine.default_model()
    return [
        schemas.ModelInfo(name=label, default=label == default, description=describe(name))
        for label, name in server.settings.models.items()
    ]


@router.get("/localizers", tags=["server"])
def localizers() -> list[str]:
    """Ways from a score map to one point; the model's own is used where none is named."""
    return list(LOCALIZERS)


@router.post("/images", tags=["images"], status_code=201, responses=_REFUSED)
def upload(server: Server, file: ImageFile) -> schemas.ImageInfo:
    """Keep an image for a while; the answer's `id` is the only way to it."""
    pixels = _pixels(server, file)
    return image_info(server.store.put(pixels, clean_name(file.filename)))


@router.get("/images/{image_id}", tags=["images"], responses={**_GONE, **_JPEG}, response_class=Response)
def image(server: Server, image_id: str) -> Response:
    """The image as it was understood: turned upright, first frame, at most 1600 pixels wide or high."""
    return Response(shown_picture(server.store.get(image_id).pixels), media_type="image/jpeg")


@router.delete("/images/{image_id}", tags=["images"], status_code=204, responses=_GONE)
def forget(server: Server, image_id: str) -> None:
    """Forget an image now."""
    server.store.drop(image_id)


@router.post("/images/{image_id}/encode", tags=["images"], status_code=204, responses=_GONE)
def encode(server: Server, image_id: str, model: str | None = None) -> None:
    """Run a model on the image now, so that the first match is quick."""
    server.engine.encode(server.store.get(image_id), model or server.engine.default_model())


@router.get("/samples", tags=["samples"])
def samples() -> list[schemas.SampleInfo]:
    """Pictures to try things with."""
    return [
        schemas.SampleInfo(name=name, title=sample.title, pictures=len(sample.members))
        for name, sample in offered_samples().items()
    ]


@router.get("/samples/{name}/{number}", tags=["samples"], responses={**_GONE, **_JPEG}, response_class=Response)
def sample_thumbnail(name: str, number: int) -> Response:
    """A small copy of a sample's picture."""
    pixels = reduced(sample_picture(name, number, THUMBNAIL).pixels, THUMBNAIL)
    return Response(shown_picture(pixels), media_type="image/jpeg")


@router.post("/samples/{name}/{number}", tags=["samples"], status_code=201, responses=_GONE)
def take_sample(server: Server, name: str, number: int) -> schemas.SampleImage:
    """A sample's picture as an image of one's own."""
    picture = sample_picture(name, number)
    kept = image_info(server.store.put(picture.pixels, picture.name))
    points = np.round(picture.points, 2).tolist()
    return schemas.SampleImage(**kept.model_dump(), points=points, point_names=picture.point_names)


@router.post("/index/find", tags=["collection"], responses=_GONE)
def find(server: Server, request: schemas.FindRequest) -> list[schemas.Found]:
    """Where a point lies in all images of the collection, the most similar places first."""
    index, image = _index(server), server.store.get(request.image)
    with server.engine.turns.turn(ENCODE):
        hits = index.find(image.pixels, request.point, top=request.top)
    return [
        schemas.Found(
            number=index.images.index(hit.image),
            name=clean_name(hit.image),
            point=hit.point,
            similarity=round(hit.similarity, 4),
            confidence=round(hit.confidence, 6),
        )
        for hit in hits
    ]


@router.post("/index/{number}", tags=["collection"], status_code=201, responses=_GONE)
def take_indexed(server: Server, number: int) -> schemas.ImageInfo:
    """An image of the collection as an image of one's own."""
    index = _index(server)
    if not 0 <= number < len(index):
        raise NotFound(f"the collection has {len(index)} images; there is no number {number}")
    path = index.images[number]
    content = read_bytes(Place.at(path))
    return image_info(server.store.put(server.decoder.decode(io.BytesIO(content)), clean_name(path)))


@router.post("/match", tags=["matching"], responses=_GONE)
def match(server: Server, request: schemas.MatchRequest) -> schemas.MatchResponse:
    """Where points of the source lie in the target."""
    if request.scores and len(request.points) > schemas.MAX_SCORED_POINTS:
        raise WebError(f"score maps are given for at most {schemas.MAX_SCORED_POINTS} points at once")
    pair = server.store.get(request.source), server.store.get(request.target)
    return _match(server, pair, request.points, _query(server, request), request.names, scores=request.scores)


@router.post("/match-images", tags=["matching"], responses=_REFUSED)
def match_images(
    server: Server,
    source: ImageFile,
    target: ImageFile,
    points: Annotated[
        Json[list[schemas.Point]], Form(description="JSON: `[[x, y], ...]` in pixels of the source, 0-based.")
    ],
    model: Annotated[str | None, Form(description="A label of `/api/models`.")] = None,
    localizer: Annotated[schemas.LocalizerName | None, Form()] = None,
    temperature: Annotated[schemas.Temperature | None, Form()] = None,
    mirror: Annotated[schemas.MirrorChoice, Form()] = "no",
) -> schemas.MatchResponse:
    """Match two files in one request; nothing is kept."""
    if not 0 < len(points) <= schemas.MAX_POINTS:
        raise WebError(f"points: expected 1 to {schemas.MAX_POINTS} of them, got {len(points)}")
    pair = StoredImage("", "source", _pixels(server, source)), StoredImage("", "target", _pixels(server, target))
    query = Query(model or server.engine.default_model(), localizer, temperature, mirror)
    return _match(server, pair, points, query)


@router.post("/warp", tags=["matching"], responses={**_GONE, **_PNG}, response_class=Response)
def warp(server: Server, request: schemas.WarpRequest) -> Response:
    """The source laid over the target by the dense match, as PNG of the target's shape."""
    source, target = server.store.get(request.source), server.store.get(request.target)
    sizes = [reduced_size(each.size, WARP_SIDE) for each in (source, target)]
    flow = server.engine.dense(source, target, _query(server, request), (sizes[0], sizes[1]))
    picture = warp_picture(flow, reduced(source.pixels, WARP_SIDE), request.blend)
    return Response(picture, media_type="image/png")


@router.post("/export/{form}", tags=["matching"], responses=_GONE, response_class=Response)
def export(server: Server, form: schemas.ExportFormat, request: schemas.MatchRequest) -> Response:
    """Matches as a file: `json` as `/api/match` gives them, `coco` key-points, or a `png` picture."""
    pair = server.store.get(request.source), server.store.get(request.target)
    answer = _match(server, pair, request.points, _query(server, request), request.names)
    if form == "png":
        return _attachment(to_picture(answer, *pair), "image/png", "matches.png")
    if form == "coco":
        return _attachment(to_json(to_coco(answer, *pair)), "application/json", "matches.coco.json")
    plain = {"names": [each.name for each in pair], **answer.model_dump(exclude={"matches": {"__all__": {"scores"}}})}
    return _attachment(to_json(plain), "application/json", "matches.json")


def _index(server: Service) -> Index:
    if server.index is None:
        raise NotFound("this server has no collection to search; start it with --index")
    return server.index


def _pixels(server: Service, file: UploadFile) -> np.ndarray:
    return server.decoder.decode(file.file)


def _query(server: Service, request: schemas.PairRequest) -> Query:
    label = request.model or server.engine.default_model()
    return Query(label, request.localizer, request.temperature, request.mirror)


def _match(
    server: Service,
    pair: tuple[StoredImage, StoredImage],
    points: list[schemas.Point],
    query: Query,
    names: list[str] | None = None,
    scores: bool = False,
) -> schemas.MatchResponse:
    called = _called(names, len(points))
    return match_response(server.engine.match(*pair, np.array(points), query, scores=scores), query, called)


def _called(names: list[str] | None, count: int) -> list[str]:
    """What each of the points is called: its name, or its number."""
    given = [""] * count if names is None else names
    if len(given) != count:
        raise WebError(f"names: {len(given)} of them, but {count} points")
    called = [name.strip() or str(number) for number, name in enumerate(given, start=1)]
    if twice := next((name for name in called if called.count(name) > 1), None):
        raise WebError(f"names: two points are called '{twice}'")
    return called


def _attachment(content: bytes, kind: str, name: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
