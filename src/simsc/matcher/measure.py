"""PCK of a matcher with its options (flipped ensemble, input size, aspect) on the pairs of a data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simsc.data.records import Pair
from simsc.engine.predictions import Prediction
from simsc.engine.scoring import score
from simsc.matcher.encoded import EncodedImage
from simsc.matcher.matcher import Matcher
from simsc.metrics.pck import Threshold
from simsc.metrics.protocols import find_protocol


def measure(
    matcher: Matcher,
    pairs: Sequence[Pair],
    threshold: Threshold,
    *,
    protocol: str = "paper-256",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """PCK per image, per point and per category; the protocol only says where distances are measured.

    Args:
        matcher: what is measured, with its own input size and options.
        pairs: of a data set.
        threshold: its base, ``img``, ``kps`` or ``bbox``.
        protocol: see :mod:`simsc.metrics.protocols`; ``paper-256`` measures in the images resized to a square.
        progress: told how many pairs of how many are done.
    """
    encoded: dict[str, EncodedImage] = {}
    predictions = []
    for index, pair in enumerate(pairs):
        for ref in (pair.source, pair.target):
            if ref.key not in encoded:
                encoded[ref.key] = matcher.encode(ref.load())
        result = matcher.match(encoded[pair.source.key], encoded[pair.target.key], pair.source_points)
        predictions.append(Prediction.of(pair, result.points, result.confidence, result.temperature))
        if progress:
            progress(index + 1, len(pairs))
    return score(predictions, find_protocol(protocol), threshold)
