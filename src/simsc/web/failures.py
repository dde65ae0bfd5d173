"""Errors of the API: the sentence for a person, a status for programs, and a code for the page."""

from __future__ import annotations

from simsc.errors import SimscError


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
