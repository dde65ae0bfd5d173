"""Predictions: what a model says about each pair, on disk in a form that any other code can score."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simsc.coordinates import Size
from simsc.data.records import Pair
from simsc.errors import DataError
from simsc.files import atomic_path
from simsc.reading import number_table, numbers, read_json_lines, typed_field


@dataclass(frozen=True)
class Prediction:
    """One pair's truth and prediction, all points xy, 0-based, in pixels of the original images.

    ``source`` is the side the queries are on: protocols that match target to source have swapped the pair. What
    follows ``temperature`` is not needed to score by one's own code; :func:`simsc.evaluation.scoring.score` needs the
    sizes for protocols that measure in the network's frame, and takes protocol and threshold from here by default.
    ``mirrored`` says that the mirror image of the source was matched; points are those of the images as they are.
    """

    pair: str
    category: str
    source: str
    target: str
    source_points: np.ndarray
    target_points: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    temperature: float
    source_size: Size | None = None
    target_size: Size | None = None
    target_box: np.ndarray | None = None
    protocol: str | None = None
    threshold: str | None = None
    mirrored: bool = False

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({key: _plain(value) for key, value in vars(self).items()}, ensure_ascii=False)

    @staticmethod
    def of(
        pair: Pair, predicted: np.ndarray, confidence: np.ndarray, temperature: float, mirrored: bool = False
    ) -> Prediction:
        """The prediction for a pair."""
        return Prediction(
            pair=pair.name,
            category=pair.category,
            source=pair.source.key,
            target=pair.target.key,
            source_points=pair.source_points,
            target_points=pair.target_points,
            predicted=predicted,
            confidence=confidence,
            temperature=temperature,
            source_size=pair.source.size,
            target_size=pair.target.size,
            target_box=pair.target_box,
            mirrored=mirrored,
        )


def write_predictions(path: str | Path, predictions: Iterable[Prediction]) -> None:
    """Write predictions atomically, one line of JSON per pair."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        for prediction in predictions:
            stream.write(prediction.to_json() + "\n")


def read_predictions(path: str | Path) -> list[Prediction]:
    """Read a predictions file; a bad line is refused with its number and what is wrong."""
    predictions = [_parse(record, where) for where, record in read_json_lines(path)]
    if not predictions:
        raise DataError(f"{path}: holds no predictions; expected one JSON object per line")
    return predictions


_POINTS = ("source_points", "target_points", "predicted")
_TEXTS = ("pair", "category", "source", "target")
_REQUIRED = tuple(name for name, field in Prediction.__dataclass_fields__.items() if field.default is MISSING)


def _parse(record: Any, where: str) -> Prediction:
    if not isinstance(record, dict) or (missing := [name for name in _REQUIRED if name not in record]):
        raise DataError(f"{where}: {f'missing field {missing[0]!r}' if isinstance(record, dict) else 'not an object'}")
    fields: dict[str, Any] = {name: record[name] for name in Prediction.__dataclass_fields__ if name in record}
    for name in (*_TEXTS, *(name for name in ("protocol", "threshold") if fields.get(name) is not None)):
        typed_field(fields, name, str, where)
    for name in _POINTS:
        fields[name] = number_table(fields[name], 2, f"{where}: {name}")
    if not len(fields["predicted"]) == len(fields["target_points"]) == len(fields["source_points"]) > 0:
        raise DataError(f"{where}: source_points, target_points and predicted must have the same length, at least 1")
    fields["confidence"] = numbers(fields["confidence"], len(fields["predicted"]), f"{where}: confidence")
    fields["temperature"] = float(numbers([fields["temperature"]], 1, f"{where}: temperature")[0])
    for name in ("source_size", "target_size"):
        fields[name] = _size(fields.get(name), f"{where}: {name}")
    if not isinstance(fields.get("mirrored", False), bool):
        raise DataError(f"{where}: mirrored: expected true or false, got {str(fields['mirrored'])[:80]!r}")
    if fields.get("target_box") is not None:
        fields["target_box"] = numbers(fields["target_box"], 4, f"{where}: target_box")
    return Prediction(**fields)


def _size(value: Any, where: str) -> Size | None:
    """Height and width, or None where they are not given."""
    if value is None:
        return None
    height, width = numbers(value, 2, where)
    if min(height, width) < 1 or height % 1 or width % 1:
        raise DataError(f"{where}: expected height and width as whole numbers above 0, got {value}")
    return int(height), int(width)


def _plain(value: Any) -> Any:
    """Exact values: a score from the file equals the score that was printed."""
    return value.tolist() if isinstance(value, np.ndarray) else value
