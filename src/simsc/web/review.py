"""``simsc review``: transferred key-points of many images on one page, the doubtful first, to be corrected by hand.

Every correction is written to the file at once, so nothing is lost when the page or the server is closed.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, FiniteFloat

from simsc.errors import DataError, SimscError
from simsc.files import write_json
from simsc.images import read_image
from simsc.reading import number_table, numbers, read_json, typed_field
from simsc.web.answers import shown_picture
from simsc.web.app import STATIC, Guard, on_error, on_invalid
from simsc.web.schemas import NotFound
from simsc.web.settings import Settings

SURE = 2


class Correction(BaseModel):
    """The key-points of an object after a person has looked at them: x, y, visibility; and whether all are settled."""

    model_config = ConfigDict(extra="forbid")
    keypoints: list[FiniteFloat]
    settled: bool = False


class ReviewFile:
    """A COCO file with key-points under review.

    Args:
        path: what a transfer wrote.
        out: where corrections go; a review that was begun there is continued.
    """

    def __init__(self, path: Path, out: Path) -> None:
        self.path, self.out = path, out
        self._turn = threading.Lock()
        begun = out if out.is_file() else path
        try:
            self.document: dict[str, Any] = read_json(begun)
            self.images = {item["id"]: path.parent / item["file_name"] for item in self.document["images"]}
            self.annotations = {item["id"]: item for item in self.document["annotations"] if "keypoints" in item}
            self.names = {item["id"]: item.get("keypoints", []) for item in self.document["categories"]}
            self._check(begun)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{begun}: not a COCO file with key-points ({repr(error)[:200]})") from None
        if not self.annotations:
            raise DataError(f"{begun}: holds no key-points to review")
        if out.parent.resolve() != path.parent.resolve():
            raise DataError(f"{out}: corrections must lie in the folder of {path}, for images are named relative to it")

    def _check(self, begun: Path) -> None:
        """Refuse what the page could not show."""
        for number, item in self.annotations.items():
            where = f"{begun}: annotation {str(number)[:40]}"
            typed_field(item, "id", int, where)
            places = number_table(_triples(typed_field(item, "keypoints", list, where)), 3, f"{where}: keypoints")
            if "keypoint_scores" in item:
                numbers(item["keypoint_scores"], len(places), f"{where}: keypoint_scores")
            if item["image_id"] not in self.images or item["category_id"] not in self.names:
                raise DataError(f"{where}: its image or its category is not in the file")
        for item in self.document["images"]:
            sides = [item[side] for side in ("width", "height") if side in item]
            if not isinstance(item["id"], int) or not all(isinstance(side, int) and side > 0 for side in sides):
                raise DataError(f"{begun}: image {str(item['id'])[:40]}: number and sides must be whole numbers")
        if not all(isinstance(name, str) for names in self.names.values() for name in names):
            raise DataError(f"{begun}: names of key-points must be texts")

    def view(self) -> dict[str, Any]:
        """What the page shows: objects with names, places, visibilities and scores."""
        return {
            "file": str(self.out),
            "categories": self.document["categories"],
            "images": [{key: item[key] for key in ("id", "file_name", "width", "height")} for item in self._sized()],
            "objects": [
                {
                    "id": number,
                    "image": item["image_id"],
                    "category": item["category_id"],
                    "names": self.names[item["category_id"]],
                    "keypoints": item["keypoints"],
                    "scores": item.get("keypoint_scores", [1.0] * (len(item["keypoints"]) // 3)),
                    "settled": bool(item.get("reviewed", _by_hand(item))),
                }
                for number, item in self.annotations.items()
            ],
        }

    def correct(self, number: int, correction: Correction) -> None:
        """Take over a correction and write the file."""
        item = self._annotation(number)
        before = item["keypoints"]
        if len(correction.keypoints) != len(before):
            raise DataError(f"object {number} has {len(before) // 3} key-points, not {len(correction.keypoints) / 3:g}")
        if any(value not in (0, 1, 2) for value in correction.keypoints[2::3]):
            raise DataError("a visibility is 0, 1 or 2")
        with self._turn:
            item["keypoints"] = correction.keypoints
            item["num_keypoints"] = sum(value > 0 for value in correction.keypoints[2::3])
            if "keypoint_scores" in item:
                item["keypoint_scores"] = [
                    1.0 if correction.settled or (seen == SURE and now != was) else score
                    for score, seen, now, was in zip(
                        item["keypoint_scores"],
                        correction.keypoints[2::3],
                        _triples(correction.keypoints),
                        _triples(before),
                        strict=True,
                    )
                ]
            item["reviewed"] = correction.settled
            write_json(self.out, self.document)

    def picture(self, number: int) -> bytes:
        """An image as JPEG."""
        if number not in self.images:
            raise NotFound(f"no image {number} in {self.path.name}")
        return shown_picture(read_image(self.images[number]))

    def _annotation(self, number: int) -> dict[str, Any]:
        if number not in self.annotations:
            raise NotFound(f"no object {number} in {self.path.name}")
        found: dict[str, Any] = self.annotations[number]
        return found

    def _sized(self) -> list[dict[str, Any]]:
        """Images with their sizes, which COCO files of others may lack."""
        for item in self.document["images"]:
            if "width" not in item or "height" not in item:
                item["height"], item["width"] = read_image(self.images[item["id"]]).shape[:2]
        images: list[dict[str, Any]] = self.document["images"]
        return images


def _by_hand(item: dict[str, Any]) -> bool:
    """Whether a transfer took over the labels that somebody gave: it is certain of every key-point."""
    scores = [
        score for score, seen in zip(item.get("keypoint_scores", []), item["keypoints"][2::3], strict=False) if seen
    ]
    return bool(scores) and min(scores) == 1


def _triples(values: list[float]) -> list[list[float]]:
    return [values[start : start + 3] for start in range(0, len(values), 3)]


def create_review_app(review: ReviewFile, settings: Settings) -> FastAPI:
    """The page and its questions; it needs no model."""
    app = FastAPI(title="simsc review", docs_url=None, redoc_url=None)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "review.html")

    @app.get("/api/review")
    def view() -> dict[str, Any]:
        return review.view()

    @app.put("/api/review/{number}", status_code=204)
    def correct(number: int, correction: Correction) -> None:
        review.correct(number, correction)

    @app.get("/api/review/images/{number}")
    def picture(number: int) -> Response:
        return Response(review.picture(number), media_type="image/jpeg")

    @app.get("/api/review.json")
    def download() -> Response:
        text = json.dumps(review.document)
        name = f'attachment; filename="{review.out.name}"'
        return Response(text, media_type="application/json", headers={"Content-Disposition": name})

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(SimscError, on_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_middleware(Guard, settings=settings)
    return app
