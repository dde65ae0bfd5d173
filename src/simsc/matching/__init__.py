"""Matching: pure functions from feature maps to score maps to corresponding points."""

from simsc.matching.confidence import cycle_error, peak_probability
from simsc.matching.features import Features
from simsc.matching.localize import LOCALIZERS, localize
from simsc.matching.scores import query_scores, sample_map

__all__ = ["LOCALIZERS", "Features", "cycle_error", "localize", "peak_probability", "query_scores", "sample_map"]
