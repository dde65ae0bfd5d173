"""Which images show the same photograph, across data sets: what one is tested on, another must not train on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path

from simsc.data.records import Annotated, ImageRef, Pair
from simsc.files import sha256

_VOC_ID = re.compile(r"(?<!\d)\d{4}_\d{6}(?!\d)")


class Photographs:
    """Photographs, known by their VOC id (in the file name), else by the file's content."""

    def __init__(self, images: Iterable[ImageRef]) -> None:
        self._images = list(images)
        self._ids = {number for ref in self._images if (number := voc_id(ref))}

    def __contains__(self, image: ImageRef) -> bool:
        if number := voc_id(image):
            return number in self._ids
        return image.path is not None and bool(self._images) and _digest(image.path) in self._digests

    def without(self, objects: list[Annotated]) -> list[Annotated]:
        """The objects that are in none of these photographs."""
        return [one for one in objects if one.image not in self]

    def without_pairs(self, pairs: list[Pair]) -> list[Pair]:
        """The pairs neither of whose images is one of these photographs."""
        return [pair for pair in pairs if pair.source not in self and pair.target not in self]

    @cached_property
    def _digests(self) -> set[str]:
        return {_digest(ref.path) for ref in self._images if ref.path is not None}


def voc_id(image: ImageRef) -> str | None:
    """The number of a PASCAL VOC photograph in an image's file name.

    >>> voc_id(ImageRef("images/cat-2008_000123-7", (8, 8)))
    '2008_000123'
    """
    name = image.path.name if image.path is not None else image.key.rpartition("/")[2]
    found = _VOC_ID.search(name)
    return found[0] if found else None


@cache
def _digest(path: Path) -> str:
    return sha256(path)
