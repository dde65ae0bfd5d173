"""What goes over the wire: requests, answers and failures; the descriptions appear in ``/openapi.json``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from simsc.errors import SimscError, unknown_name
from simsc.matching import LOCALIZERS
from simsc.matching.mirror import Mirror

MAX_POINTS = 500
MAX_SCORED_POINTS = 64

Point = tuple[FiniteFloat, FiniteFloat]
ImageId = Annotated[str, Field(min_length=1, max_length=64, description="Token of an uploaded image.")]


def _localizer(name: str) -> str:
    if name not in LOCALIZERS:
        raise ValueError(unknown_name("localizer", name, LOCALIZERS))
    return name


LocalizerName = Annotated[str, AfterValidator(_localizer), Field(json_schema_extra={"enum": list(LOCALIZERS)})]
Temperature = Annotated[
    float,
    Field(ge=1e-4, le=100, allow_inf_nan=False, description="Effective temperature; leave out for the model's own."),
]
MirrorChoice = Annotated[
    Mirror,
    Field(
        description="Match the mirror image of the source, or with `auto` whichever suits the target better; "
        "left parts are then found at right ones."
    ),
]
Status = Literal["sure", "unsure", "none"]
ExportFormat = Literal["json", "coco", "png"]


class Request(BaseModel):
    """Base of requests: a misspelt key is refused."""

    model_config = ConfigDict(extra="forbid")


class PairRequest(Request):
    """Two images, and how to match them."""

    source: ImageId
    target: ImageId
    model: str | None = Field(None, description="A label of `/api/models`; leave out for the default.")
    localizer: LocalizerName | None = Field(
        None, description="How a score map becomes one point; leave out for the model's own."
    )
    temperature: Temperature | None = None
    mirror: MirrorChoice = "no"


class MatchRequest(PairRequest):
    """Points of the source to be found in the target."""

    points: list[Point] = Field(
        min_length=1, max_length=MAX_POINTS, description="(x, y) in pixels of the source as shown, 0-based."
    )
    names: list[Annotated[str, Field(max_length=80)]] | None = Field(
        None, description="What the points are called, in their order; one without a name is called by its number."
    )
    scores: bool = Field(False, description=f"Also give the score maps, for at most {MAX_SCORED_POINTS} points.")


class WarpRequest(PairRequest):
    """The source laid over the target by its dense match."""

    blend: bool = Field(True, description="Fade out where matches are doubtful or do not lead back to their start.")


class ImageInfo(BaseModel):
    """An image that is kept for a while; only its token leads to it."""

    id: ImageId
    name: str
    width: int
    height: int


class Extent(BaseModel):
    """Size of an image or a map."""

    width: int
    height: int


class PointMatch(BaseModel):
    """Where one point lies in the target."""

    name: str = Field(description="As asked; else the number of the point, from 1.")
    source: Point
    target: Point
    confidence: float = Field(
        description="Probability that the match is right, if the model is calibrated; else that of the likeliest cell."
    )
    status: Status = Field(description="`none`: the point has no counterpart; a model without calibration is unsure.")
    cycle_error: float = Field(description="Pixels of the source between the point and where its match leads back to.")
    scores: list[list[float]] | None = Field(
        None,
        description="Similarity with every cell of the target, rows from the top, before any temperature: "
        "softmax(scores / temperature) is the distribution of the match.",
    )


class MatchResponse(BaseModel):
    """Matches in the order of the query points."""

    model: str
    localizer: LocalizerName
    temperature: float = Field(description="Effective temperature that was used.")
    model_temperature: float = Field(description="The model's own effective temperature for this pair.")
    learned: bool = Field(description="Whether the model learned its temperature; otherwise it is a constant.")
    calibrated: bool = Field(description="Whether confidence is the probability that a match is right.")
    mirrored: bool = Field(description="Whether the mirror image of the source was matched.")
    source: Extent
    target: Extent
    cells: Extent = Field(description="Size of the score maps.")
    convention: Literal["center", "corner"] = Field(description="How cells and pixels of the target relate.")
    matches: list[PointMatch]


class ModelInfo(BaseModel):
    """A model on offer."""

    name: str
    default: bool
    description: str


class SampleInfo(BaseModel):
    """Ready pictures of one kind of thing."""

    name: str
    title: str
    pictures: int = Field(description="How many there are: 0 is the source, 1 the target, the others further targets.")


class SampleImage(ImageInfo):
    """A picture of a sample, now kept like an uploaded image, with its key-points."""

    points: list[Point]
    point_names: list[str]


class FindRequest(Request):
    """A point of an image, to be found in all images of the server's collection."""

    image: ImageId
    point: Point
    top: int = Field(12, ge=1, le=100, description="How many places are given, the best one of each image.")


class Found(BaseModel):
    """A place in the collection that looks like the point."""

    number: int = Field(description="Of the image in the collection.")
    name: str
    point: Point
    similarity: float = Field(description="Cosine of the features, in [-1, 1]; the highest comes first.")
    confidence: float = Field(description="Probability of the best cell among those of its image.")


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"]
    version: str
    images: int = Field(description="How many images are kept now.")
    indexed: int = Field(description="How many images the collection has that can be searched; 0 without one.")


class Problem(BaseModel):
    """Every answer that is not a success."""

    detail: str = Field(description="One sentence for a person.")
    code: str = Field(description="The kind of problem, for programs; `image-gone` means: upload again.")


class WebError(SimscError):
    """An answer other than success."""

    status = 400
    code = "bad-request"


class ImageGone(WebError):
    """The image was never uploaded, was deleted, or had to make room for newer ones; upload it again."""

    status = 404
    code = "image-gone"

    def __init__(self, image_id: str) -> None:
        super().__init__(f"image '{image_id}' is not here (any more); upload it again")
        self.image_id = image_id


class NotFound(WebError):
    """No such sample, model or page."""

    status = 404
    code = "not-found"


class TooLarge(WebError):
    """More bytes or pixels than allowed."""

    status = 413
    code = "too-large"


class NotAnImage(WebError):
    """A file whose content is not of an allowed image type."""

    status = 415
    code = "not-an-image"


class Busy(WebError):
    """Too many requests at once."""

    status = 503
    code = "busy"
