"""Pairs of rendered scenes to try things with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from simsc.web.failures import NotFound

if TYPE_CHECKING:
    import numpy as np

    from simsc.scenes import Scene

SIZE = 448
THUMBNAIL = 128


@dataclass(frozen=True)
class Sample:
    """Two scenes of a category by their numbers in the test split."""

    category: str
    title: str
    source: int
    target: int


SAMPLES = {
    sample.category: sample
    for sample in (
        Sample("car", "Cars", 6, 0),
        Sample("quadruped", "Four-legged animals", 13, 1),
        Sample("bird", "Birds", 5, 6),
        Sample("aeroplane", "Aeroplanes", 0, 2),
        Sample("chair", "Chairs", 7, 11),
        Sample("face", "Faces", 14, 11),
    )
}


def find_sample(name: str) -> Sample:
    """The sample of a name."""
    if name not in SAMPLES:
        raise NotFound(f"unknown sample '{name}'; offered: {', '.join(SAMPLES)}")
    return SAMPLES[name]


def scenes_of(sample: Sample, size: int = SIZE) -> tuple[Scene, Scene]:
    """Source and target, drawn on first use; ``size`` is their longer side."""
    return _scene(sample.category, sample.source, size), _scene(sample.category, sample.target, size)


def shared_points(source: Scene, target: Scene) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Key-points that both scenes show, ``(n, 2)`` each, and their names."""
    seen = source.visible & target.visible
    names = [name for name, shown in zip(source.point_names, seen, strict=True) if shown]
    return source.points[seen], target.points[seen], names


@lru_cache(maxsize=4 * len(SAMPLES))
def _scene(category: str, index: int, size: int) -> Scene:
    from simsc.scenes import render_scene

    return render_scene(category, index, split="test", size=size)
