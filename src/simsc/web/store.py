"""Images of users: files from strangers decoded with care, then kept under an unguessable token for a while."""

from __future__ import annotations

import io
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

import numpy as np
from PIL import Image

from simsc.errors import DataError
from simsc.images import read_image
from simsc.web.schemas import Busy, ImageGone, NotAnImage, TooLarge

if TYPE_CHECKING:
    from simsc.matcher import EncodedImage


KEPT = 2  # the pair in use stays, however small the budget
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
AT_ONCE = 2
"""Uploads that are decoded at the same time."""
BYTES_PER_PIXEL = 8
"""Memory that decoding takes: Pillow's pixels, the result, and a little more."""
_LONGEST_NAME = 80


@dataclass
class StoredImage:
    """One image of one user.

    Attributes:
        id: the token; who does not know it cannot reach the image.
        name: for people, and for exported files.
        pixels: ``(H, W, 3)`` uint8.
        encodings: what the models that were asked said about it, by label.
    """

    id: str
    name: str
    pixels: np.ndarray
    encodings: dict[str, EncodedImage] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int]:
        """``(height, width)``."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def nbytes(self) -> int:
        """Memory that pixels and features take."""
        return self.pixels.nbytes + sum(_feature_bytes(each) for each in list(self.encodings.values()))


class ImageStore:
    """A bounded shelf of images.

    Args:
        max_images: how many are kept at most.
        max_bytes: how much memory they may take, features included; the two newest are kept in any case.

    >>> store = ImageStore(max_images=2, max_bytes=1000)
    >>> first = store.put(np.zeros((2, 2, 3), np.uint8), "one")
    >>> store.get(first.id).name
    'one'
    """

    def __init__(self, max_images: int, max_bytes: int) -> None:
        self.max_images, self.max_bytes = max(max_images, KEPT), max_bytes
        self._images: OrderedDict[str, StoredImage] = OrderedDict()
        self._lock = threading.Lock()
        self._reserved = 0

    def __len__(self) -> int:
        return len(self._images)

    def put(self, pixels: np.ndarray, name: str) -> StoredImage:
        """Keep an image under a new token."""
        image = StoredImage(secrets.token_urlsafe(18), name, pixels)
        with self._lock:
            self._images[image.id] = image
        self.trim()
        return image

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Count ``size`` bytes as taken while something is decoded; refused while others have taken what there is."""
        with self._lock:
            if self._reserved and self._reserved + size > self.max_bytes:
                raise Busy("the server is decoding other images; try again in a moment")
            self._reserved += size
        try:
            self.trim()
            yield
        finally:
            with self._lock:
                self._reserved -= size

    def get(self, image_id: str) -> StoredImage:
        """The image of a token, which is now the most recently used one."""
        with self._lock:
            if image_id not in self._images:
                raise ImageGone(image_id)
            self._images.move_to_end(image_id)
            return self._images[image_id]

    def drop(self, image_id: str) -> None:
        """Forget an image."""
        with self._lock:
            if self._images.pop(image_id, None) is None:
                raise ImageGone(image_id)

    def trim(self) -> None:
        """Drop the least recently used images until the limits hold; features may have been added since."""
        with self._lock:
            total = self._reserved + sum(image.nbytes for image in self._images.values())
            while len(self._images) > KEPT and (len(self._images) > self.max_images or total > self.max_bytes):
                _, oldest = self._images.popitem(last=False)
                total -= oldest.nbytes


def _feature_bytes(encoded: EncodedImage) -> int:
    return sum(part.nbytes for part in (encoded.features, encoded.flipped) if part is not None)


class Decoder:
    """Decodes uploads, a few at a time, each counted against the memory of the store.

    Args:
        store: whose memory it is.
        max_bytes, max_pixels: of one image.
        patience: seconds an upload waits for its turn.
    """

    def __init__(self, store: ImageStore, max_bytes: int, max_pixels: int, patience: float) -> None:
        self.store, self.max_bytes, self.max_pixels, self.patience = store, max_bytes, max_pixels, patience
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def decode(self, file: IO[bytes]) -> np.ndarray:
        """The pixels ``(H, W, 3)`` uint8 of an uploaded file."""
        if not self._places.acquire(timeout=self.patience):
            raise Busy("the server is decoding other images; try again in a moment")
        try:
            content = file.read(self.max_bytes + 1)
            width, height = declared_size(content, self.max_bytes, self.max_pixels)
            with self.store.reserved(len(content) + BYTES_PER_PIXEL * width * height):
                return decode_upload(content, self.max_bytes, self.max_pixels)
        finally:
            self._places.release()


def decode_upload(content: bytes, max_bytes: int, max_pixels: int) -> np.ndarray:
    """The pixels ``(H, W, 3)`` uint8 of an uploaded file.

    The type is what the content says, whatever name or declared type came with it; only the decoders of
    :data:`FORMATS` ever see the bytes.
    """
    declared_size(content, max_bytes, max_pixels)
    try:
        return read_image(content, max_pixels=max_pixels)
    except DataError as error:
        raise NotAnImage(str(error)) from None


def declared_size(content: bytes, max_bytes: int, max_pixels: int) -> tuple[int, int]:
    """Width and height that the head of an image file states; refuses what is too large or no image."""
    if len(content) > max_bytes:
        raise TooLarge(f"the image file is larger than {max_bytes / 2**20:g} MB")
    width, height = _declared_size(content)
    if width * height > max_pixels:
        raise TooLarge(f"the image has {width}x{height} pixels; at most {max_pixels:,} are allowed")
    return width, height


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
