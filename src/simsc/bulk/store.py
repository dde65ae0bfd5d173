"""Each image is encoded once: a memory of encodings bounded in bytes, over a store on disk that later jobs use too.

Encodings are rounded to half precision whether they come from the network, from memory or from a file, so results do
not depend on which of these it was. A file is named by a hash of the image's bytes, in a folder named by a hash of the
model and of how images enter it; it carries a checksum, and one that does not agree counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from simsc.allocator import hand_back
from simsc.bulk.places import Place, read_bytes
from simsc.errors import DataError, SimscError
from simsc.frames import Frame
from simsc.images import read_image
from simsc.matcher import EncodedImage, Matcher
from simsc.matching.features import Features

LAYOUT = 2
"""Changes when the same model and image would give other files."""

KNOWN_IMAGES = 200_000
"""Paths whose content is known by name, size and time, so that it is not read again."""

HELD_FREE = 256 << 20
"""Bytes of encodings that are made ready before what that has left free is handed back."""

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The values used last, within a number of bytes; the last one stays however large it is.

    >>> kept = Recent[str](10)
    >>> for name in ("one", "two", "one", "three"):
    ...     kept.put(name, name, 5)
    >>> list(kept), kept.size
    (['one', 'three'], 10)
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.size = max_bytes, 0
        self._kept: OrderedDict[str, tuple[Value, int]] = OrderedDict()

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def get(self, key: str) -> Value | None:
        """The value, which becomes the one used last."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: str, value: Value, size: int) -> None:
        """Keep a value of ``size`` bytes, and let go of those not used for longest."""
        if key in self._kept:
            self.size -= self._kept.pop(key)[1]
        self._kept[key] = value, size
        self.size += size
        while self.size > self.max_bytes and len(self._kept) > 1:
            _, (_, freed) = self._kept.popitem(last=False)
            self.size -= freed


def fingerprint(matcher: Matcher) -> str:
    """Hash of what an encoding depends on besides the image: weights, and how images enter the network."""
    digest = hashlib.sha256(f"{LAYOUT} {matcher.view} {matcher.flip} {matcher.runtime}".encode())
    for name, tensor in sorted(matcher.model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


class Store:
    """Encodings as files.

    Args:
        folder: where; each model has a folder of its own inside.
        matcher: whose encodings they are.
        mark: its fingerprint, where that is known already.
    """

    def __init__(self, folder: Place, matcher: Matcher, mark: str | None = None) -> None:
        self.folder, self.view, self.device = folder / (mark or fingerprint(matcher)), matcher.view, matcher.device

    def place(self, key: str) -> Place:
        """Where the encoding of an image of that content is."""
        return self.folder / key[:2] / f"{key}.safetensors"

    def __contains__(self, key: str) -> bool:
        return self.place(key).is_file()

    def get(self, key: str) -> EncodedImage | None:
        """The encoding, or None if there is none, or only a damaged one."""
        place = self.place(key)
        try:
            tensors, size = _unpack(place.read())
            if place.local:
                os.utime(place.path)  # the store of a job lets go of what was not used for longest
        except OSError:
            return None
        except _DamagedError:
            place.delete()
            return None
        return _restored(tensors, self.view.frame(size), self.device)

    def put(self, key: str, image: EncodedImage) -> int:
        """Keep a rounded encoding; returns the bytes of its file."""
        data = _pack(_flatten(image), image.size)
        self.place(key).write(data, durable=False)
        return len(data)


class _DamagedError(Exception):
    """A file of the store that is not what was written."""


@dataclass
class Counts:
    """What was done: images that the network saw, files read, and bytes written to the store."""

    encoded: int = 0
    loaded: int = 0
    written: int = 0


class Encodings(Generic[Value]):
    """Images by path: made ready for matching once, and kept within a number of bytes.

    Args:
        matcher: encodes.
        ready: what an encoding is turned into; that is what is kept in memory.
        weigh: bytes of it.
        root: folder of relative paths.
        store: files that are used and filled, or None.
        max_bytes: of memory.
        batch: images per forward, filled up with copies: an image's features then do not depend on its neighbours.
    """

    def __init__(
        self,
        matcher: Matcher,
        ready: Callable[[EncodedImage], Value],
        weigh: Callable[[Value], int],
        *,
        root: Place,
        store: Store | None = None,
        max_bytes: int = 1 << 30,
        batch: int = 1,
    ) -> None:
        self.matcher, self.ready, self.weigh = matcher, ready, weigh
        self.root, self.store, self.batch = root, store, batch
        self.counts = Counts()
        self._memory = Recent[Value](max_bytes)
        self._made = 0
        self._keys: OrderedDict[tuple[str, object], str] = OrderedDict()

    def prepare(self, paths: Sequence[str], first: int = 0) -> dict[str, str]:
        """See to it that the store holds all these images; returns the reasons of those that cannot be encoded.

        Begins at ``first`` and goes round: workers that begin at different places of the same list meet what the
        others have done, so together they encode every image once without speaking to each other.
        """
        failed: dict[str, str] = {}
        waiting: dict[str, np.ndarray] = {}
        for index in range(len(paths)):
            path = paths[(first + index) % len(paths)]
            try:
                key, data = self._read(path)
                if self._memory.get(key) is not None or key in waiting or (self.store and key in self.store):
                    continue
                waiting[key] = self._pixels(path, data)
            except (SimscError, OSError, MemoryError) as error:
                failed[path] = str(error)
            if len(waiting) == self.batch:
                self._encode(waiting)
                waiting = {}
        if waiting:
            self._encode(waiting)
        return failed

    def get(self, path: str) -> Value:
        """The image, ready for matching."""
        key, data = self._read(path)
        value = self._memory.get(key)
        if value is None and self.store is not None and (image := self.store.get(key)) is not None:
            self.counts.loaded += 1
            value = self._keep(key, image)
        return value if value is not None else self._encode({key: self._pixels(path, data)})[key]

    def key(self, path: str) -> str:
        """Hash of the image's content, by which the store knows it."""
        return self._read(path)[0]

    def _pixels(self, path: str, data: bytes | None) -> np.ndarray:
        place = self.root / path
        try:
            return read_image(read_bytes(place) if data is None else data)
        except DataError as error:
            raise DataError(str(error).replace("the image bytes", str(place))) from None

    def _encode(self, images: dict[str, np.ndarray]) -> dict[str, Value]:
        pixels = list(images.values())
        encoded = self.matcher.encode_many(pixels + pixels[-1:] * (self.batch - len(pixels)))
        values = {}
        for key, image in zip(images, encoded, strict=False):
            rounded = _rounded(image)
            self.counts.encoded += 1
            if self.store is not None:
                self.counts.written += self.store.put(key, rounded)
            values[key] = self._keep(key, rounded)
        return values

    def _keep(self, key: str, image: EncodedImage) -> Value:
        value = self.ready(image)
        size = self.weigh(value)
        self._memory.put(key, value, size)
        self._made += size
        if self._made > HELD_FREE:
            self._made = 0
            hand_back()
        return value

    def _read(self, path: str) -> tuple[str, bytes | None]:
        """Hash of a file's content and, where it had to be read for that, the content."""
        place = self.root / path
        state = path, _state(place)
        if (key := self._keys.get(state)) is not None:
            return key, None
        data = read_bytes(place)
        key = self._keys[state] = hashlib.sha256(data).hexdigest()[:40]
        if len(self._keys) > KNOWN_IMAGES:
            self._keys.popitem(last=False)
        return key, data


def encoded_bytes(image: EncodedImage) -> int:
    """Memory that an encoding takes."""
    features = [each for each in (image.features, image.flipped) if each is not None]
    return sum(tensor.nbytes for each in features for tensor in (each.maps, *each.layers))


def _state(place: Place) -> object:
    if not place.local:
        return None  # asking would cost a request each time
    try:
        status = Path(place.path).stat()
    except OSError:
        raise DataError(f"{place}: no such image file") from None
    return status.st_mtime_ns, status.st_size


def _rounded(image: EncodedImage) -> EncodedImage:
    """The encoding as it comes back from the store: the same values in the same layout, which decides last digits."""
    return _restored(_flatten(image), image.frame, image.features.maps.device)


def _restored(tensors: dict[str, Tensor], frame: Frame, device: torch.device) -> EncodedImage:
    parts = {
        name: _features(name, tensors, frame.canvas, device) for name in ("", "flipped.") if f"{name}beta" in tensors
    }
    return EncodedImage(parts[""], frame, parts.get("flipped."))


def _half(tensor: Tensor) -> Tensor:
    """In half precision, unless a value is too large for it."""
    half = tensor.half()
    return half if bool(torch.isfinite(half).all()) else tensor


def _flatten(image: EncodedImage) -> dict[str, Tensor]:
    """An encoding as tensors by name; maps as ``(h, w, C)``, the order in which the network leaves them."""
    tensors = {}
    for prefix, features in (("", image.features), ("flipped.", image.flipped)):
        if features is None:
            continue
        tensors[f"{prefix}beta"] = features.beta.float().cpu().clone()
        for index, maps in enumerate((features.maps, *features.layers)):
            tensors[f"{prefix}maps.{index}"] = _half(maps)[0].permute(1, 2, 0).contiguous().cpu()
    return tensors


def _features(prefix: str, tensors: dict[str, Tensor], canvas: tuple[int, int], device: torch.device) -> Features:
    names = sorted(
        (name for name in tensors if name.startswith(f"{prefix}maps.")), key=lambda name: int(name.rpartition(".")[2])
    )
    maps, *layers = (tensors[name].to(device).float().permute(2, 0, 1)[None] for name in names)
    return Features(maps, tensors[f"{prefix}beta"].to(device), canvas, tuple(layers))


def _pack(tensors: dict[str, Tensor], size: tuple[int, int]) -> bytes:
    from safetensors.torch import save

    facts = {"size": list(size), "checksum": _checksum(tensors, size)}
    return save(tensors, metadata={"simsc": json.dumps(facts)})


def _unpack(data: bytes) -> tuple[dict[str, Tensor], tuple[int, int]]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(data)
        length = int.from_bytes(data[:8], "little")
        facts = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["simsc"])
        height, width = facts["size"]
        if facts["checksum"] == _checksum(tensors, (height, width)):
            return tensors, (height, width)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:  # also nested too deeply
        raise _DamagedError from error
    raise _DamagedError


def _checksum(tensors: dict[str, Tensor], size: tuple[int, int]) -> int:
    total = zlib.crc32(f"{size[0]} {size[1]}".encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), total)
        total = zlib.crc32(np.ascontiguousarray(tensor.numpy()).data.cast("B"), total)
    return total
