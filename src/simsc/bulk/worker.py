"""One worker: a matcher with its memory of encodings, that turns shards of the manifest into Parquet files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from simsc.bulk.lookup import Found, calibrated, make_ready, plain
from simsc.bulk.manifest import Manifest, Rows
from simsc.bulk.pairs import UNKNOWN_COUNT, Pair, match_each, match_plain
from simsc.bulk.places import Place, need
from simsc.bulk.store import Encodings, Store, encoded_bytes
from simsc.coordinates import Size
from simsc.errors import DataError
from simsc.matcher import Matcher
from simsc.matcher.queries import grid_points

SCHEMA = {
    "row": "int64: number of the row in the manifest, from 0",
    "id": "string: as in the manifest, or the row's number",
    "source": "string: the image that the points lie in",
    "target": "string: the image that they were looked for in",
    "names": "list of string: names of the points, null where there are none",
    "source_points": "list of {x, y} float32: pixels of the source as shown",
    "points": "list of {x, y} float32: pixels of the target as shown",
    "confidence": "list of float32: probability that the match is right; without calibration, of the likeliest cell",
    "cycle_error": "list of float32: pixels of the source to where a match leads back; null without the way back",
    "status": "list of string: sure, unsure or none; without calibration always unsure",
    "temperature": "float32: effective temperature of the pair",
    "mirrored": "bool: whether the mirrored source was matched",
    "error": "string: why there are no points; null where there are",
}
"""Columns of the results."""

GOLDEN = 0.6180339887498949  # multiples of it spread evenly over a circle


@dataclass(frozen=True)
class Settings:
    """What decides the results, besides the manifest.

    Attributes:
        model: name or file of the model; None for the packaged one.
        options: of :func:`simsc.load`.
        grid: points per side of a regular grid, for rows without points; None for an error in such rows.
        cycle: match back too, which calibrated confidence needs; None for where the model has a calibration.
        root: folder of relative paths of images and annotations.
    """

    model: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    grid: int | None = None
    cycle: bool | None = None
    root: str = "."

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Done:
    """What a worker reports of a shard: rows, those with an error, images encoded, bytes stored, seconds, process."""

    shard: int
    rows: int
    errors: int
    encoded: int
    stored: int
    seconds: float
    process: int


class Worker:
    """Matches shards.

    Args:
        matcher: the model.
        manifest: its rows.
        out: folder of the results.
        settings: what decides the results.
        store: folder of encodings, or None.
        mark: fingerprint of the matcher, for the store.
        max_bytes: memory for encodings.
    """

    def __init__(
        self,
        matcher: Matcher,
        manifest: Manifest,
        out: Place,
        settings: Settings,
        *,
        store: Place | None = None,
        mark: str | None = None,
        max_bytes: int = 1 << 30,
    ) -> None:
        self.matcher, self.manifest, self.out, self.settings = matcher, manifest, out, settings
        root = Place.at(settings.root)
        batch = 1 if matcher.device.type == "cpu" or matcher.view.keep_aspect else 16
        common: dict[str, Any] = {
            "root": root,
            "store": Store(store, matcher, mark) if store else None,
            "max_bytes": max_bytes,
            "batch": batch,
        }
        self.images: Encodings[Any]
        if plain(matcher):
            self.images = Encodings(matcher, make_ready(matcher), lambda image: image.nbytes, **common)
        else:
            self.images = Encodings(matcher, lambda image: image, encoded_bytes, **common)
        # One for all rows: equal questions of a source are then known to be equal.
        self._grid: Callable[[Size], np.ndarray] | None = None
        if settings.grid is not None:
            self._grid = partial(grid_points, count=settings.grid)
        self._annotated = lru_cache(maxsize=64)(partial(_annotated, root))

    def __call__(self, shard: int) -> Done:
        """Match one shard and write its file, unless another worker has done so."""
        started, counts = time.perf_counter(), self.images.counts
        before = counts.encoded, counts.written
        place = shard_place(self.out, shard)
        rows = self.manifest.read(shard)
        pairs = [self._pair(rows, index) for index in range(len(rows))]
        usable = [index for index, error in enumerate(rows.error) if error is None]
        paths = sorted({path for index in usable for path in (pairs[index].source, pairs[index].target)})
        failed: dict[str, str] = {}
        if self.images.store is not None and paths:
            failed = self.images.prepare(paths, int(shard * GOLDEN % 1 * len(paths)))
        for index in usable:
            rows.error[index] = failed.get(pairs[index].source) or failed.get(pairs[index].target)
        usable = [index for index in usable if rows.error[index] is None]
        found = self._match([pairs[index] for index in usable])
        table = to_table(rows, pairs, dict(zip(usable, found, strict=True)))
        write_table(table, place)
        errors = len(rows) - sum(isinstance(each, Found) for each in found)
        done = counts.encoded - before[0], counts.written - before[1]
        return Done(shard, len(rows), errors, *done, time.perf_counter() - started, os.getpid())

    def _match(self, pairs: list[Pair]) -> list[Found | str]:
        if plain(self.matcher):
            cycle = calibrated(self.matcher) if self.settings.cycle is None else self.settings.cycle
            return match_plain(self.matcher, self.images, pairs, cycle)
        return match_each(self.matcher, self.images, pairs)

    def _pair(self, rows: Rows, index: int) -> Pair:
        ask, count = self._grid, UNKNOWN_COUNT if self.settings.grid is None else self.settings.grid**2
        if (annotations := rows.annotations[index]) is not None and rows.points[index] is None:
            ask, count = partial(self._from_annotations, rows, index, annotations), UNKNOWN_COUNT
        return Pair(rows.source[index], rows.target[index], rows.points[index], ask, count)

    def _from_annotations(self, rows: Rows, index: int, annotations: str, size: Size) -> np.ndarray:
        points, names = self._annotated(annotations, rows.source[index], size)
        rows.names[index] = list(names)
        return points


def _annotated(root: Place, annotations: str, image: str, size: Size) -> tuple[np.ndarray, tuple[str, ...]]:
    """Key-points of an image in a file of annotations, of all its objects in turn."""
    from simsc.transfer.reading import read_instances

    place = root / annotations
    if not place.local:
        raise DataError(f"{annotations}: annotations must lie on this machine; give points instead")
    named = [pair for each in read_instances(place.path, image, size) for pair in each.keypoints.items()]
    if not named:
        raise DataError(f"{annotations}: holds no key-points of {image}")
    return np.array([point for _, point in named], dtype=np.float64), tuple(name for name, _ in named)


def shard_place(out: Place, shard: int) -> Place:
    """The file of a shard."""
    return out / f"part-{shard:08d}.parquet"


def finished_shards(out: Place) -> set[int]:
    """Shards whose files are there; a file has its name only when it is whole."""
    found = set()
    for place in out.files():
        if place.name.startswith("part-") and place.name.endswith(".parquet"):
            with suppress(ValueError):
                found.add(int(place.name[5:-8]))
    return found


def arrow_schema() -> Any:
    """:data:`SCHEMA` as Arrow types."""
    pa = need("pyarrow")
    points = pa.list_(pa.struct([("x", pa.float32()), ("y", pa.float32())]))
    types = {
        "row": pa.int64(),
        "names": pa.list_(pa.string()),
        "source_points": points,
        "points": points,
        "confidence": pa.list_(pa.float32()),
        "cycle_error": pa.list_(pa.float32()),
        "status": pa.list_(pa.string()),
        "temperature": pa.float32(),
        "mirrored": pa.bool_(),
    }
    return pa.schema([(name, types.get(name, pa.string())) for name in SCHEMA])


def to_table(rows: Rows, pairs: list[Pair], found: dict[int, Found | str]) -> Any:
    """The results of a shard as an Arrow table, in the order of the manifest."""
    pa = need("pyarrow")
    good = [each if isinstance(each := found.get(index), Found) else None for index in range(len(rows))]
    errors = [
        rows.error[index] or (answer if isinstance(answer := found.get(index), str) else None)
        for index in range(len(rows))
    ]
    queries = [pair.points if each is not None else None for pair, each in zip(pairs, good, strict=True)]
    columns = {
        "row": pa.array(rows.number, pa.int64()),
        "id": rows.id,
        "source": rows.source,
        "target": rows.target,
        "names": rows.names,
        "source_points": _point_lists(queries),
        "points": _point_lists([each.points if each else None for each in good]),
        "confidence": _lists([each.confidence if each else None for each in good]),
        "cycle_error": _lists([each.cycle_error if each else None for each in good]),
        "status": _lists([each.status if each else None for each in good], pa.string()),
        "temperature": [each and each.temperature for each in good],
        "mirrored": [each.mirrored if each else False for each in good],
        "error": errors,
    }
    schema = arrow_schema()
    return pa.table([pa.array(column, schema.field(name).type) for name, column in columns.items()], schema=schema)


def write_table(table: Any, place: Place) -> None:
    """Write a shard: whole or not at all."""
    pa, parquet = need("pyarrow"), need("pyarrow.parquet")
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    place.write(memoryview(sink.getvalue()))


def _lists(items: list[np.ndarray | None], kind: Any = None) -> Any:
    """Arrays of different lengths as one Arrow list column, of float32 unless another type is named."""
    pa = need("pyarrow")
    values, offsets, mask = _flat(items)
    return pa.ListArray.from_arrays(offsets, pa.array(values if len(values) else [], kind or pa.float32()), mask=mask)


def _point_lists(items: list[np.ndarray | None]) -> Any:
    pa = need("pyarrow")
    values, offsets, mask = _flat(items, (0, 2))
    x, y = (pa.array(np.ascontiguousarray(values[:, side].astype(np.float32))) for side in (0, 1))
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([x, y], ["x", "y"]), mask=mask)


def _flat(items: list[np.ndarray | None], empty: tuple[int, ...] = (0,)) -> tuple[np.ndarray, Any, Any]:
    pa = need("pyarrow")
    lengths = [0 if item is None else len(item) for item in items]
    values = np.concatenate([item for item in items if item is not None] or [np.zeros(empty)])
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return values, offsets, pa.array([item is None for item in items])
