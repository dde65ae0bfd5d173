"""Predictions: what a model says about each pair, on disk in a form that any other code can score."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simsc.coordinates import Size
from simsc.data.records import Pair
from simsc.errors import DataError
from simsc.files import atomic_path


@dataclass(frozen=True)
class Prediction:
    """One pair's truth and prediction, all points xy, 0-based, in pixels of the original images.

    ``source`` is the side the queries are on: protocols that match target to source have swapped the pair. What
    follows ``temperature`` is not needed to score by one's own code; :func:`simsc.evaluation.scoring.score` needs the
    sizes for protocols that measure in the network's frame, and takes protocol and threshold from here by default.
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

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps({key: _plain(value) for key, value in vars(self).items()}, ensure_ascii=False)

    @staticmethod
    def of(pair: Pair, predicted: np.ndarray, confidence: np.ndarray, temperature: float) -> Prediction:
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
        )


def write_predictions(path: str | Path, predictions: Iterable[Prediction]) -> None:
    """Write predictions atomically, one line of JSON per pair."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        for prediction in predictions:
            stream.write(prediction.to_json() + "\n")


def read_predictions(path: str | Path) -> list[Prediction]:
    """Read a predictions file; a bad line is refused with its number and what is wrong."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such predictions file")
    lines = path.read_text(encoding="utf-8").splitlines()
    predictions = [_parse(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not predictions:
        raise DataError(f"{path}: holds no predictions; expected one JSON object per line")
    return predictions


_POINTS = ("source_points", "target_points", "predicted")


_REQUIRED = tuple(name for name, field in Prediction.__dataclass_fields__.items() if field.default is MISSING)


def _parse(line: str, where: str) -> Prediction:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON ({error.msg})") from None
    if not isinstance(record, dict) or (missing := [name for name in _REQUIRED if name not in record]):
        raise DataError(f"{where}: {f'missing field {missing[0]!r}' if isinstance(record, dict) else 'not an object'}")
    fields: dict[str, Any] = {name: record[name] for name in Prediction.__dataclass_fields__ if name in record}
    for name in _POINTS:
        fields[name] = _points(fields[name], f"{where}: {name}")
    if not len(fields["predicted"]) == len(fields["target_points"]) == len(fields["source_points"]):
        raise DataError(f"{where}: source_points, target_points and predicted must have the same length")
    fields["confidence"] = np.asarray(fields["confidence"], dtype=np.float64)
    for name in ("source_size", "target_size"):
        fields[name] = _numbers(fields.get(name), 2, f"{where}: {name}", tuple)
    fields["target_box"] = _numbers(fields.get("target_box"), 4, f"{where}: target_box", np.asarray)
    return Prediction(**fields)


def _numbers(value: Any, count: int, where: str, build: Callable[[Any], Any]) -> Any:
    """``count`` numbers, or None where there are none."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != count or not all(isinstance(x, int | float) for x in value):
        raise DataError(f"{where}: expected {count} numbers, got {value}")
    return build(value)


def _points(value: Sequence[Sequence[float]], where: str) -> np.ndarray:
    try:
        points = np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError):
        points = np.empty(0)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise DataError(f"{where}: expected a list of finite [x, y]")
    return points


def _plain(value: Any) -> Any:
    """Exact values: a score from the file equals the score that was printed."""
    return value.tolist() if isinstance(value, np.ndarray) else value
