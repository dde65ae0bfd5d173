"""Where is this part in all of them? A collection of images, encoded once, that answers for one point at a time.

Coarse to fine: faiss finds the images that hold a feature like the query's, among compressed features of all images;
only those are looked at exactly, from the store of encodings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from simsc.bulk.lookup import Query, Ready, calibrated, judge_all, look_up, make_ready, plain, votes_of
from simsc.bulk.places import Place, need, read_bytes
from simsc.bulk.rules import find_images
from simsc.bulk.store import Encodings, Store, Value, encoded_bytes, fingerprint
from simsc.errors import ConfigError, DataError, SimscError
from simsc.files import Lock
from simsc.matcher import EncodedImage, Matcher, load
from simsc.matcher.queries import check_query
from simsc.matching.coherence import Polls
from simsc.processes import spread, usual_workers
from simsc.reading import parse_json

SIDE = 12
"""Features are averaged before they are indexed, to a grid of at most so many cells a side."""

DIMENSIONS = 64
TRAINED_ON = 200_000  # features that the compression is fitted to, at most
PER_LIST = 39  # of these for each list of the index, at least: what faiss asks for
FEW = 50_000  # features that are searched one by one
CHUNK = 64  # images that are encoded, or added to the index, at a time

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Hit:
    """A place that looks like the query.

    Attributes:
        image: its path.
        point: ``(x, y)`` in pixels.
        similarity: cosine of the best cell's feature and the query's, in [-1, 1]; hits are sorted by it.
        confidence, status: as of a match of the two images.
    """

    image: str
    point: tuple[float, float]
    similarity: float
    confidence: float
    status: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**vars(self), "point": list(self.point)}


def build_index(
    folder: str | Path,
    out: str | Path,
    *,
    model: str | None = None,
    options: dict[str, Any] | None = None,
    store: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict[str, str]:
    """Encode the images of a folder and index them; returns the reasons of those that cannot be used.

    Args:
        folder: of images, searched to any depth.
        out: folder of the index; encodings that are there already are used.
        model, options: of :func:`simsc.load`.
        store: folder of encodings; None for one inside ``out``.
        workers: processes; None for one a core.
        progress: told how many images of how many are done.
    """
    place = Place.at(out)
    with Lock(place.path, folder=True) if place.local else nullcontext():
        return _build(folder, place, model, options or {}, store, workers, progress)


def _build(
    folder: str | Path,
    place: Place,
    model: str | None,
    options: dict[str, Any],
    store: str | None,
    workers: int | None,
    progress: Progress | None,
) -> dict[str, str]:
    matcher = load(model, **options)
    if not plain(matcher):
        raise ConfigError("an index needs a model without a matching head, and no flipped ensemble")
    where = str(store or place / "encodings")
    images = find_images(Place.at(folder))
    failed: dict[str, str] = {}
    done = 0
    chunks = [images[start : start + CHUNK] for start in range(0, len(images), CHUNK)]
    make = partial(Preparer, str(folder), where, matcher)
    processes = usual_workers(matcher.device, workers, len(chunks))
    for count, problems in spread(make, chunks, processes, matcher.model):
        failed.update(problems)
        done += count
        if progress:
            progress(done, len(images))
    usable = [path for path in images if path not in failed]
    if not usable:
        raise DataError(f"{folder}: none of its {len(images)} images can be used")
    coarse = _write_coarse(place, _encodings(matcher, where, lambda image: image, encoded_bytes), usable)
    facts = {"model": model, "options": options, "mark": fingerprint(matcher), "store": where, "images": usable}
    facts["coarse"] = coarse
    (place / "index.json").write(json.dumps(facts).encode())
    return failed


class Preparer:
    """Encodes lists of images into a store."""

    def __init__(self, root: str, store: str, matcher: Matcher, workers: int) -> None:  # noqa: ARG002
        folder = Store(Place.at(store), matcher)
        self.images = Encodings(matcher, lambda _: 0, lambda _: 0, root=Place.at(root), store=folder, max_bytes=0)

    def __call__(self, paths: Sequence[str]) -> tuple[int, dict[str, str]]:
        """How many were seen, and the reasons of those that cannot be used."""
        return len(paths), self.images.prepare(paths)


class Index:
    """An index that was built, ready to be asked.

    Args:
        folder: of the index.
        device: ``auto``, ``cpu``, ``cuda``, ``mps``.
        max_bytes: memory for encodings of images that were looked at.
    """

    def __init__(self, folder: str | Path, *, device: str = "auto", max_bytes: int = 1 << 30) -> None:
        place = Place.at(folder)
        try:
            facts = parse_json(read_bytes(place / "index.json").decode(), place / "index.json")
            self.images = [str(path) for path in facts["images"]]
            self.matcher = load(facts["model"], **{**facts["options"], "device": device})
            same = facts["mark"] == fingerprint(self.matcher)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{place}: not an index ({error!r})") from None
        if not same:
            raise ConfigError(f"{place}: was built with another model; build it again")
        self._coarse = _read_coarse(place, facts.get("coarse"))
        ready = make_ready(self.matcher)
        self._ready = _encodings(self.matcher, facts["store"], ready, lambda each: each.nbytes, max_bytes)

    def __len__(self) -> int:
        return len(self.images)

    @torch.inference_mode()
    def find(
        self, image: Any, point: Sequence[float], *, top: int = 10, candidates: int = 100, exhaustive: bool = False
    ) -> list[Hit]:
        """Places in the collection that look most like a point of an image, the best one of each image.

        Args:
            image: anything that :class:`simsc.Matcher` takes.
            point: ``(x, y)`` in its pixels.
            top: hits that are returned.
            candidates: images that are looked at exactly, at least ``top``.
            exhaustive: look at all images.
        """
        source, query, asked = self._ask(image, point)
        chosen = range(len(self)) if exhaustive else self._near(asked.features, max(candidates, top))
        alike = [(self._similarity(asked.features, source, self.images[index]), self.images[index]) for index in chosen]
        best = sorted((-value, path) for value, path in alike if value is not None)[:top]
        return [self._hit(source, asked, query, path, -value) for value, path in best]

    @torch.inference_mode()
    def near(self, image: Any, point: Sequence[float], candidates: int) -> list[str]:
        """The coarse search alone: images that may hold something like a point of an image, the likeliest first."""
        *_, asked = self._ask(image, point)
        return [self.images[index] for index in self._near(asked.features, candidates)]

    def _ask(self, image: Any, point: Sequence[float]) -> tuple[Ready, np.ndarray, Query]:
        """An image ready for matching, the point of it ``(1, 2)`` and what is known of the point."""
        encoded = self.matcher.encode(image)
        query = check_query([point], encoded.size)
        source = make_ready(self.matcher)(encoded)
        return source, query, source.ask(query, calibrated(self.matcher))

    def _near(self, feature: torch.Tensor, count: int) -> list[int]:
        """Images with features like the query's, the nearest first."""
        query = F.normalize(feature, dim=1).cpu().numpy()
        wanted, asked = min(count, len(self)), 4 * count
        while True:
            _, found = self._coarse.search(query, min(asked, self._coarse.ntotal))
            cells = found[0][found[0] >= 0]
            images = list(dict.fromkeys((cells // self._cells).tolist()))
            if len(images) >= wanted or asked >= self._coarse.ntotal or len(cells) < asked:
                return images[:wanted]
            asked *= 4

    @property
    def _cells(self) -> int:
        return int(self._coarse.ntotal // len(self))

    def _similarity(self, feature: torch.Tensor, source: Ready, path: str) -> float | None:
        try:
            target: Ready = self._ready.get(path)
        except (SimscError, OSError):
            return None  # an image that has gone since the index was built
        best = float((feature @ target.rows.t()).max())
        return best * source.temperature * target.temperature

    def _hit(self, source: Ready, asked: Query, query: np.ndarray, path: str, similarity: float) -> Hit:
        """Where the query lies in an image, and how far that can be trusted."""
        target, judged = self._ready.get(path), calibrated(self.matcher)
        way = "", path
        polls = Polls([way, way[::-1]] if judged else [way])
        (found,) = look_up(self.matcher, target, [asked], votes_of(polls, [(way, asked)], target), judged)
        if judged:
            returned = target.ask(found.points)
            (back,) = look_up(self.matcher, source, [returned], votes_of(polls, [(way[::-1], returned)], source))
            found.cycle_error = np.linalg.norm(back.points - query, axis=1)
            judge_all(self.matcher, [found], [max(source.frame.original)])
        x, y = found.points[0]
        return Hit(path, (float(x), float(y)), similarity, float(found.confidence[0]), str(found.status[0]))


def _encodings(
    matcher: Matcher,
    store: str,
    ready: Callable[[EncodedImage], Value],
    weigh: Callable[[Value], int],
    max_bytes: int = 0,
) -> Encodings[Value]:
    folder = Store(Place.at(store), matcher)
    return Encodings(matcher, ready, weigh, root=Place.at("."), store=folder, max_bytes=max_bytes)


def coarse_features(image: EncodedImage, side: int) -> np.ndarray:
    """Unit features ``(side * side, C)`` of an image on a coarser grid, float32."""
    units = F.normalize(image.features.maps, dim=1)
    pooled = F.normalize(F.adaptive_avg_pool2d(units, side), dim=1)
    return np.ascontiguousarray(pooled[0].flatten(1).t().cpu().numpy())


@torch.inference_mode()
def _write_coarse(place: Place, images: Encodings[EncodedImage], paths: Sequence[str]) -> str:
    """Fit the compression on a part of the images, then add all of them, one after the other; the file's SHA-256."""
    faiss = need("faiss")
    longest = max(images.get(paths[0]).features.map_size)
    side = longest // -(-longest // SIDE)
    channels, total = images.matcher.model.head.channels, side * side * len(paths)
    step = max(-(-total // TRAINED_ON), 1)
    chosen = paths[::step]
    sample = np.empty((len(chosen) * side * side, channels), dtype=np.float32)
    for number, features in enumerate(_features(images, chosen, side)):
        sample[number * side * side :][: side * side] = features
    size = min(DIMENSIONS, channels, len(sample))
    lists = max(min(int(4 * total**0.5), len(sample) // PER_LIST), 1)
    index = faiss.index_factory(channels, f"PCA{size},{'Flat' if total < FEW else f'IVF{lists},SQ8'}")
    index.train(sample)
    del sample
    for start in range(0, len(paths), CHUNK):
        index.add(np.concatenate(list(_features(images, paths[start : start + CHUNK], side))))
    if total >= FEW:
        faiss.extract_index_ivf(index).nprobe = max(lists // 32, 16)
    data = memoryview(faiss.serialize_index(index))
    (place / "coarse.faiss").write(data)
    return hashlib.sha256(data).hexdigest()


def _features(images: Encodings[EncodedImage], paths: Sequence[str], side: int) -> Iterator[np.ndarray]:
    for path in paths:
        yield coarse_features(images.get(path), side)


def _read_coarse(place: Place, digest: str | None) -> Any:
    """The coarse index; a damaged one is refused before faiss sees it, which trusts the sizes in a file."""
    data = read_bytes(place / "coarse.faiss")
    if hashlib.sha256(data).hexdigest() != digest:
        raise DataError(f"{place}: damaged index (coarse.faiss is not the file that was written); build it again")
    try:
        return need("faiss").deserialize_index(np.frombuffer(data, dtype=np.uint8))
    except RuntimeError as error:
        raise DataError(f"{place}: damaged index ({str(error).splitlines()[0]}); build it again") from None
