"""Measures how fast the project is, as ratios that hold on any machine."""

from simsc.bench.cases import CASES, run_cases
from simsc.bench.ratios import Ratio, describe, environment

__all__ = ["CASES", "Ratio", "describe", "environment", "run_cases"]
