"""Matching heads: optional modules between the features and the score maps."""

from simsc.models.heads.base import Head
from simsc.models.heads.cost import head_cost
from simsc.models.heads.refined import Refined, RefinedFeatures, RefinedScores
from simsc.models.heads.registry import HEADS, build_head, head_options, parse_head

__all__ = [
    "HEADS",
    "Head",
    "Refined",
    "RefinedFeatures",
    "RefinedScores",
    "build_head",
    "head_cost",
    "head_options",
    "parse_head",
]
