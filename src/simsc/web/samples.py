"""Pictures to try things with: the photographs of a clone, or rendered scenes where those are absent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from simsc.errors import unknown_name
from simsc.images import read_image
from simsc.web.schemas import NotFound

PHOTOS = Path(__file__).parents[3] / "examples" / "photos"
SIZE = 448
"""Longer side of a rendered scene."""
THUMBNAIL = 128


@dataclass(frozen=True)
class Sample:
    """Pictures of one kind of thing: a source, its target, and further targets.

    Attributes:
        title: for people.
        members: names of photographs, or numbers of scenes in the test split.
        category: of the scenes.
    """

    title: str
    members: tuple[int, ...] | tuple[str, ...]
    category: str = ""


@dataclass(frozen=True)
class Picture:
    """One picture of a sample.

    Attributes:
        name: of its file.
        pixels: ``(H, W, 3)`` uint8.
        points: ``(n, 2)`` key-points that can be seen; none where nobody has placed them.
        point_names: ``n`` names.
    """

    name: str
    pixels: np.ndarray
    points: np.ndarray
    point_names: list[str]


_BEASTS = ("donkey", "zebra", "horse", "cow", "lion", "bison", "gnu", "wapiti", "chamois")
_BIRDS = ("crow", "pigeon", "blackbird", "lark", "duck")


def _photographs(title: str, members: tuple[str, ...], source: str, target: str) -> Sample:
    others = (name for name in members if name not in (source, target))
    return Sample(title, (source, target, *others))


PHOTO_SAMPLES = {
    "donkey": _photographs("A donkey and a zebra", _BEASTS, "donkey", "zebra"),
    "horse": _photographs("A horse and a cow", _BEASTS, "horse", "cow"),
    "bison": _photographs("A bison and a gnu, which looks the other way", _BEASTS, "bison", "gnu"),
    "crow": _photographs("A crow and a pigeon", _BIRDS, "crow", "pigeon"),
    "lark": _photographs("A lark and a blackbird", _BIRDS, "lark", "blackbird"),
    "sedan": _photographs("Two cars", ("sedan", "truck"), "sedan", "truck"),
}
SCENE_SAMPLES = {
    "car": Sample("Cars", (6, 0, 1, 2, 3, 4), "car"),
    "quadruped": Sample("Four-legged animals", (13, 1, 0, 2, 3, 4), "quadruped"),
    "bird": Sample("Birds", (5, 6, 0, 1, 2, 3), "bird"),
    "aeroplane": Sample("Aeroplanes", (0, 2, 1, 3, 4, 5), "aeroplane"),
    "chair": Sample("Chairs", (7, 11, 0, 1, 2, 3), "chair"),
    "face": Sample("Faces", (14, 11, 0, 1, 2, 3), "face"),
}


def offered_samples() -> dict[str, Sample]:
    """The samples by name."""
    return PHOTO_SAMPLES if (PHOTOS / "keypoints.json").is_file() else SCENE_SAMPLES


def sample_picture(name: str, number: int, size: int = SIZE) -> Picture:
    """Picture ``number`` of a sample: 0 is the source, 1 the target; ``size`` is the longer side of a scene."""
    samples = offered_samples()
    if name not in samples:
        raise NotFound(unknown_name("sample", name, list(samples)))
    sample = samples[name]
    if not 0 <= number < len(sample.members):
        raise NotFound(f"sample '{name}' has {len(sample.members)} pictures; there is no number {number}")
    member = sample.members[number]
    return _photograph(member) if isinstance(member, str) else _scene(sample.category, member, size)


@lru_cache(maxsize=4 * len(SCENE_SAMPLES))
def _scene(category: str, index: int, size: int) -> Picture:
    from simsc.scenes import render_scene

    scene = render_scene(category, index, split="test", size=size)
    names = [name for name, seen in zip(scene.point_names, scene.visible, strict=True) if seen]
    return Picture(f"{category}-{index}.png", scene.image, scene.points[scene.visible], names)


def _photograph(name: str) -> Picture:
    path = PHOTOS / f"{name}.jpg"
    points, names = _annotations(PHOTOS / "keypoints.json").get(path.name, (np.empty((0, 2)), []))
    return Picture(path.name, read_image(path), points, names)


@lru_cache(maxsize=1)
def _annotations(path: Path) -> dict[str, tuple[np.ndarray, list[str]]]:
    """Visible key-points ``(n, 2)`` and their names, by file name."""
    from simsc.data.sources import load_objects

    return {
        Path(each.image.key).name: (each.points[each.present], np.array(each.point_names)[each.present].tolist())
        for each in load_objects("coco", path, "test")
    }
