"""From the engine's answers to what goes over the wire."""

from __future__ import annotations

from typing import Any

import numpy as np

from simsc.coordinates import Size
from simsc.web.engine import Answer, Query
from simsc.web.schemas import Extent, ImageInfo, MatchResponse, PointMatch
from simsc.web.store import StoredImage

_DECIMALS = 5  # of a similarity: at the lowest temperature of the page this is still a fraction of a per cent


def image_info(image: StoredImage) -> ImageInfo:
    """What the owner of an image is told."""
    height, width = image.size
    return ImageInfo(id=image.id, name=image.name, width=width, height=height)


def match_response(answer: Answer, query: Query) -> MatchResponse:
    """All matches of an answer."""
    result = answer.result
    return MatchResponse(
        model=query.model,
        localizer=query.localizer,  # type: ignore[arg-type]
        temperature=result.temperature,
        model_temperature=answer.model_temperature,
        learned=answer.learned,
        source=_extent(result.source_size),
        target=_extent(result.target_size),
        cells=_extent(answer.cells),
        convention=result.convention,
        matches=[_point_match(answer, index) for index in range(len(result))],
    )


def _point_match(answer: Answer, index: int) -> PointMatch:
    result = answer.result
    scores = None if answer.scores is None else np.round(answer.scores[index].astype(float), _DECIMALS).tolist()
    return PointMatch(
        source=_point(result.source_points[index]),
        target=_point(result.points[index]),
        confidence=round(float(result.confidence[index]), 6),
        cycle_error=round(float(result.cycle_error[index]), 3),
        scores=scores,
    )


def _extent(size: Size) -> Extent:
    return Extent(height=size[0], width=size[1])


def _point(values: Any) -> tuple[float, float]:
    return round(float(values[0]), 3), round(float(values[1]), 3)
