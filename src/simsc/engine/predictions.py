"""Predictions: what a model says about each pair, on disk in a form that any other code can score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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

    ``source`` is the side the queries are on: protocols that match target to source have swapped the pair.
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
    source_size: Size
    target_size: Size
    target_box: np.ndarray | None = None

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


def _parse(line: str, where: str) -> Prediction:
    try:
        record = json.loads(line)
        fields: dict[str, Any] = {name: record[name] for name in Prediction.__dataclass_fields__}
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON ({error.msg})") from None
    except (KeyError, TypeError) as error:
        raise DataError(f"{where}: missing field {error}") from None
    for name in _POINTS:
        fields[name] = _points(fields[name], f"{where}: {name}")
    if not len(fields["predicted"]) == len(fields["target_points"]) == len(fields["source_points"]):
        raise DataError(f"{where}: source_points, target_points and predicted must have the same length")
    fields["confidence"] = np.asarray(fields["confidence"], dtype=np.float64)
    fields["source_size"], fields["target_size"] = tuple(fields["source_size"]), tuple(fields["target_size"])
    if fields["target_box"] is not None:
        fields["target_box"] = np.asarray(fields["target_box"], dtype=np.float64)
    return Prediction(**fields)


def _points(value: Sequence[Sequence[float]], where: str) -> np.ndarray:
    try:
        points = np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError):
        points = np.empty(0)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise DataError(f"{where}: expected a list of finite [x, y]")
    return points


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.round(4).tolist()
    return round(value, 8) if isinstance(value, float) else value
