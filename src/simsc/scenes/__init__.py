"""Scenes: an embedded, procedural data set of articulated objects, rendered on demand from a seed.

>>> from simsc.scenes import render_scene
>>> render_scene("bird", 3, split="test").image.shape[2]
3
"""

from simsc.scenes.dataset import load_pairs
from simsc.scenes.scene import CATEGORIES, POINT_NAMES, SPLITS, Scene, render_scene

__all__ = ["CATEGORIES", "POINT_NAMES", "SPLITS", "Scene", "load_pairs", "render_scene"]
