"""What is to be matched: rows of source, target and points, numbered and cut into shards that can be read alone.

A manifest is a Parquet, JSONL or CSV file (or a folder of Parquet files) with the columns of :data:`COLUMNS`. Parquet
is read where it lies, each shard by whoever works on it. Text has no random access, so it is copied once into Parquet.
"""

from __future__ import annotations

import bisect
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from simsc.bulk.places import Place, need
from simsc.errors import ConfigError, DataError
from simsc.matcher.queries import parse_points
from simsc.reading import parse_json

COLUMNS = {
    "source": "image that the points lie in: a path, or an address such as s3://bucket/image.jpg",
    "target": "image that they are looked for in",
    "points": "list of [x, y] in pixels of the source; in text also 120,88;60,140",
    "names": "list of the points' names (optional)",
    "annotations": "instead of points: COCO, labelme or plain JSON with key-points of the source (optional)",
    "id": "anything that identifies the row (optional; default: its number)",
}
TEXT = (".jsonl", ".ndjson", ".csv", ".tsv")
GROUP_ROWS = 1250
"""Rows of a copied manifest that are read at once: it is cut into shards when all are counted."""

GROUPS_PER_FILE = 64
"""Groups in one file of a copied manifest: a footer with more of them takes long to read."""


@dataclass
class Rows:
    """The rows of a shard, column by column; a row that cannot be understood has an error instead of points.

    Attributes:
        number: of each row in the manifest, from 0.
        points: ``(n, 2)`` xy of each row, or None where annotations or a grid decide.
    """

    number: list[int] = field(default_factory=list)
    id: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    points: list[np.ndarray | None] = field(default_factory=list)
    names: list[list[str] | None] = field(default_factory=list)
    annotations: list[str | None] = field(default_factory=list)
    error: list[str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.number)

    def add(self, number: int, row: dict[str, Any]) -> None:
        """Append a row as a file holds it."""
        points, names, error = None, None, _text(row.get("error")) or None
        try:
            points = _points(row.get("points"))
            names = _names(row.get("names"), points)
        except (DataError, ValueError, TypeError, OverflowError, LookupError, RecursionError) as problem:
            error = error or f"points: {problem}"[:500]
        missing = [name for name in ("source", "target") if not _text(row.get(name))]
        if missing and error is None:
            error = f"no {' and no '.join(missing)}"
        self.number.append(number)
        self.id.append(_text(row.get("id")) or str(number))
        self.source.append(_text(row.get("source")))
        self.target.append(_text(row.get("target")))
        self.points.append(points)
        self.names.append(names)
        self.annotations.append(_text(row.get("annotations")) or None)
        self.error.append(error)


class Manifest(Protocol):
    """Rows in numbered shards."""

    rows: int
    shards: int

    def read(self, shard: int) -> Rows:
        """The rows of one shard."""
        ...


class ParquetManifest:
    """Rows of Parquet files, one after the other; shard k is the rows from ``k * shard_rows``."""

    def __init__(self, files: Sequence[str], counts: Sequence[int], shard_rows: int) -> None:
        self.files, self.shard_rows = list(files), shard_rows
        self.ends = list(accumulate(counts))
        self.rows = self.ends[-1] if self.ends else 0
        self.shards = -(-self.rows // shard_rows)

    def read(self, shard: int) -> Rows:
        """The rows of one shard, from the row groups that hold them and no others."""
        rows = Rows()
        first, stop = shard * self.shard_rows, min((shard + 1) * self.shard_rows, self.rows)
        position = first
        while position < stop:
            index = bisect.bisect_right(self.ends, position)
            begin = self.ends[index] - self._count(index)
            end = min(self.ends[index], stop)
            for number, row in enumerate(_slice(self.files[index], position - begin, end - begin), start=position):
                rows.add(number, row)
            position = end
        return rows

    def _count(self, index: int) -> int:
        return self.ends[index] - (self.ends[index - 1] if index else 0)


def count_rows(files: Iterable[Place]) -> list[int]:
    """Rows of Parquet files, from their footers; refuses files without the columns that are needed."""
    parquet = need("pyarrow.parquet")
    counts = []
    for place in files:
        try:
            with parquet.ParquetFile(place.path, filesystem=place.system) as file:
                names = file.schema_arrow.names
                counts.append(file.metadata.num_rows)
        except (OSError, ValueError) as error:
            raise _unreadable(place, error) from None
        _check_columns(place, names)
    return counts


def find_manifest(where: Place) -> list[Place]:
    """The Parquet files of a manifest that is one, or a folder of them; empty if it is a text file."""
    if where.is_folder():
        files = [each for each in where.files(recursive=True) if each.name.endswith(".parquet")]
        if not files:
            raise DataError(f"{where}: a folder without .parquet files")
        return files
    if not where.is_file():
        raise DataError(f"{where}: no such manifest")
    if where.name.lower().endswith(TEXT):
        return []
    if not where.name.lower().endswith((".parquet", ".pq")):
        raise DataError(f"{where}: expected a manifest that ends in .parquet, {', '.join(TEXT)}, or a folder of images")
    return [where]


def copy_text(where: Place, folder: Place) -> list[Place]:
    """Copy a JSONL or CSV manifest into Parquet files in ``folder``, in constant memory."""
    return write_rows(_read_text(where), folder)


def write_rows(rows: Iterable[dict[str, Any]], folder: Place) -> list[Place]:
    """Write rows of texts into Parquet files in ``folder``, in small groups that can be read alone."""
    pa, parquet = need("pyarrow"), need("pyarrow.parquet")
    schema = pa.schema([(name, pa.string()) for name in (*COLUMNS, "error")])
    files: list[Place] = []
    groups = _groups(rows, GROUP_ROWS)
    while (group := next(groups, None)) is not None:
        sink = pa.BufferOutputStream()
        with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
            count = 0
            while group is not None:
                writer.write_table(pa.Table.from_pylist(group, schema), row_group_size=GROUP_ROWS)
                count += 1
                group = next(groups, None) if count < GROUPS_PER_FILE else None
        files.append(folder / f"rows-{len(files):06d}.parquet")
        files[-1].write(memoryview(sink.getvalue()))
    return files


def _groups(rows: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    for row in rows:
        group.append(row)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _read_text(where: Place) -> Iterator[dict[str, Any]]:
    """Rows of a text file with all values as texts; a line that cannot be read becomes a row with its error."""
    with where.system.open_input_stream(where.path) as raw:
        stream = io.TextIOWrapper(io.BufferedReader(raw, 1 << 20), encoding="utf-8", errors="replace", newline="")
        if where.name.lower().endswith((".csv", ".tsv")):
            reader = csv.DictReader(stream, delimiter="\t" if where.name.lower().endswith(".tsv") else ",")
            try:
                names = reader.fieldnames or []
            except csv.Error as error:
                raise DataError(f"{where}: not CSV ({error})") from None
            _check_columns(where, names)
            yield from _read_csv(reader)
            return
        for line in stream:
            if line.strip():
                yield _read_line(line)


def _read_csv(reader: csv.DictReader[str]) -> Iterator[dict[str, Any]]:
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield {"error": f"line {reader.line_num}: not CSV ({error})"}
            continue
        if row is None:
            return
        yield {name: row[name] for name in COLUMNS if row.get(name)}


def _read_line(line: str) -> dict[str, Any]:
    try:
        value = parse_json(line, "the line")
    except DataError as error:
        return {"error": str(error)}
    if not isinstance(value, dict):
        return {"error": "not a JSON object"}
    return {name: _as_text(value[name]) for name in COLUMNS if value.get(name) is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check_columns(where: Place, names: Sequence[str]) -> None:
    missing = {"source", "target"} - set(names)
    if missing:
        raise ConfigError(
            f"{where}: no column {' and no column '.join(sorted(missing))}; it has {', '.join(names) or 'none'}"
        )


def _slice(file: str, first: int, stop: int) -> Iterator[dict[str, Any]]:
    """Rows ``first`` to ``stop - 1`` of a Parquet file."""
    place = Place.at(file)
    try:
        yield from _slice_of(place, first, stop)
    except (OSError, ValueError) as error:
        raise _unreadable(place, error) from None


def _unreadable(place: Place, error: Exception) -> DataError:
    return DataError(f"{place}: not a Parquet file that can be read ({' '.join(str(error).split())[:200]})")


def _slice_of(place: Place, first: int, stop: int) -> Iterator[dict[str, Any]]:
    parquet = need("pyarrow.parquet")
    with parquet.ParquetFile(place.path, filesystem=place.system) as source:
        names = [name for name in (*COLUMNS, "error") if name in source.schema_arrow.names]
        start = 0
        for group in range(source.metadata.num_row_groups):
            size = source.metadata.row_group(group).num_rows
            low, high = max(first - start, 0), min(stop - start, size)
            if low < high:
                yield from source.read_row_group(group, columns=names).slice(low, high - low).to_pylist()
            start += size


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _points(value: Any) -> np.ndarray | None:
    """Points of a manifest's cell: lists of pairs or of ``{x, y}``, JSON of these, or ``x,y;x,y``."""
    if isinstance(value, str):
        text = value.strip()
        if not text:
            return None
        if not text.startswith("["):
            return parse_points(text, "points")
        value = parse_json(text, "points")
    if value is None:
        return None
    if len(value) and isinstance(value[0], dict):
        value = [(each["x"], each["y"]) for each in value]
    array = np.asarray(value, dtype=np.float64)
    if array.size == 0:
        return np.zeros((0, 2))
    if array.ndim != 2 or array.shape[1] != 2 or not np.isfinite(array).all():
        raise DataError(f"points: expected finite pairs [x, y], got an array of shape {array.shape}")
    return array


def _names(value: Any, points: np.ndarray | None) -> list[str] | None:
    if isinstance(value, str):
        value = (
            parse_json(value, "names") if value.strip().startswith("[") else value.split(";") if value.strip() else None
        )
    if value is None:
        return None
    names = [str(name) for name in value]
    if points is not None and len(names) != len(points):
        raise DataError(f"{len(names)} names of {len(points)} points")
    return names
