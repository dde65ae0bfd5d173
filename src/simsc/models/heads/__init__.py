"""Matching heads: optional modules between the features and the score maps."""

from simsc.models.heads.base import HEADS, Head, build_head

__all__ = ["HEADS", "Head", "build_head"]
