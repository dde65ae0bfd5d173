"""PCK of a matcher with its options on the pairs of a data set: do flipped ensemble and larger inputs help?

Run it as ``python -m simsc.matcher.measure MODEL [OUT.json]``; the default pairs are PF-Pascal's validation split.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from simsc.data.records import Pair
from simsc.evaluation.pck import Threshold
from simsc.evaluation.predictions import Prediction
from simsc.evaluation.protocol import find_protocol
from simsc.evaluation.scoring import score
from simsc.matcher.encoded import EncodedImage
from simsc.matcher.matcher import Matcher, load

OPTIONS: dict[str, dict[str, Any]] = {
    "256": {},
    "256, flip": {"flip": True},
    "320": {"size": 320},
    "320, flip": {"size": 320, "flip": True},
    "384": {"size": 384},
    "320, aspect kept": {"size": 320, "keep_aspect": True},
}
"""What is compared by default."""


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
        protocol: see :mod:`simsc.evaluation.protocol`; ``paper-256`` measures in the images resized to a square.
        progress: told how many pairs of how many are done.
    """
    encoded: dict[str, EncodedImage] = {}
    predictions = []
    for index, pair in enumerate(pairs):
        fresh = {ref.key: ref for ref in (pair.source, pair.target) if ref.key not in encoded}
        encoded.update(zip(fresh, matcher.encode_many([ref.load() for ref in fresh.values()]), strict=True))
        result = matcher.match(encoded[pair.source.key], encoded[pair.target.key], pair.source_points)
        predictions.append(Prediction.of(pair, result.points, result.confidence, result.temperature))
        if progress:
            progress(index + 1, len(pairs))
    return score(predictions, find_protocol(protocol), threshold).to_dict()


def compare_options(model: str, data: str = "pfpascal", split: str = "val") -> dict[str, dict[str, Any]]:
    """:func:`measure` for all of :data:`OPTIONS`; prints a line of PCK per image for each."""
    from simsc.data.sources import dataset_info, load_pairs

    pairs, threshold = load_pairs(data, None, split), dataset_info(data).threshold
    results = {}
    for name, options in OPTIONS.items():
        results[name] = measure(load(model, **options), pairs, threshold)
        figures = "  ".join(f"@{alpha} {value:.1f}" for alpha, value in results[name]["per_image"].items())
        print(f"{name:18} {figures}", flush=True)
    return results


if __name__ == "__main__":
    from simsc.files import write_json

    outcome = compare_options(sys.argv[1])
    if len(sys.argv) > 2:
        write_json(sys.argv[2], outcome)
