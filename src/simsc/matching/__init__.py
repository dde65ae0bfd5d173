"""Matching: pure functions from feature maps to score maps to corresponding points."""

from simsc.matching.confidence import cycle_confidence, cycle_error, peak_probability
from simsc.matching.dense import DenseMatch, cycle_map, dense_match
from simsc.matching.features import Features
from simsc.matching.localize import LOCALIZERS, localize
from simsc.matching.scores import query_scorer, query_scores, sample_map
from simsc.matching.shared import shared_scores

__all__ = [
    "LOCALIZERS",
    "DenseMatch",
    "Features",
    "cycle_confidence",
    "cycle_error",
    "cycle_map",
    "dense_match",
    "localize",
    "peak_probability",
    "query_scorer",
    "query_scores",
    "sample_map",
    "shared_scores",
]
