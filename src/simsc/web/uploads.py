"""Files from strangers: recognised by content, refused when too large, decoded with care."""

from __future__ import annotations

import io
import re

import numpy as np
from PIL import Image

from simsc.errors import DataError
from simsc.images import read_image
from simsc.web.failures import NotAnImage, TooLarge

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
_LONGEST_NAME = 80


def decode_upload(content: bytes, max_bytes: int, max_pixels: int) -> np.ndarray:
    """The pixels ``(H, W, 3)`` uint8 of an uploaded file.

    The type is what the content says, whatever name or declared type came with it; only the decoders of
    :data:`FORMATS` ever see the bytes.
    """
    if len(content) > max_bytes:
        raise TooLarge(f"the image file is larger than {max_bytes / 2**20:g} MB")
    width, height = _declared_size(content)
    if width * height > max_pixels:
        raise TooLarge(f"the image has {width}x{height} pixels; at most {max_pixels:,} are allowed")
    try:
        return read_image(content, max_pixels=max_pixels)
    except DataError as error:
        raise NotAnImage(str(error)) from None


def clean_name(name: str | None) -> str:
    """A file name without folders and signs that a file system or a page could misread.

    >>> clean_name("../../my cat<script>.jpg"), clean_name(None)
    ('my cat_script_.jpg', 'image')
    """
    last = re.split(r"[\\/]", name or "")[-1]
    return re.sub(r"[^\w .()+-]", "_", last).strip(" .")[:_LONGEST_NAME] or "image"


def _declared_size(content: bytes) -> tuple[int, int]:
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            return image.size
    except Image.DecompressionBombError:
        raise TooLarge("the image has too many pixels to be opened safely") from None
    except Exception:  # decoders meet hostile bytes here; whatever they raise, it is not an image to us
        raise NotAnImage(f"the file is not an image of an allowed type ({', '.join(FORMATS)})") from None
