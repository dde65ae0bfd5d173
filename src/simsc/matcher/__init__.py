"""The two-image API: load a model once, encode images once, ask as often as you like."""

from simsc.matcher.encoded import EncodedImage
from simsc.matcher.flow import DenseFlow
from simsc.matcher.matcher import Matcher, load
from simsc.matcher.results import MatchResult

__all__ = ["DenseFlow", "EncodedImage", "MatchResult", "Matcher", "load"]
