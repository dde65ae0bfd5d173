"""One scene: its category, the object's geometry, which is known without drawing, and the picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from simsc.coordinates import Size
from simsc.errors import DataError, unknown_name
from simsc.scenes import surroundings
from simsc.scenes.animals import BIRD_POINTS, FACE_POINTS, QUADRUPED_POINTS, build_bird, build_face, build_quadruped
from simsc.scenes.looks import Draws
from simsc.scenes.parts import Model
from simsc.scenes.raster import cover, depth_at, rasterise, shade
from simsc.scenes.solids import Block, Camera
from simsc.scenes.things import AEROPLANE_POINTS, CAR_POINTS, CHAIR_POINTS, build_aeroplane, build_car, build_chair

Range = tuple[float, float]
OCCLUDED = 0.2  # share of scenes with something in front of the object


@dataclass(frozen=True)
class Kind:
    """How a category is built and photographed.

    Attributes:
        build: makes an instance.
        points: names of its key-points.
        yaws, pitch, roll: ranges in degrees; see :meth:`Camera.looking`.
        settings: where it stands.
        fill: share of the picture that it takes.
        level: place between the picture's upper (0) and lower (1) edge.
        closeup: whether only the extent of its key-points has to fit.
    """

    build: Callable[[Draws], Model]
    points: tuple[str, ...]
    yaws: tuple[Range, ...]
    pitch: Range
    roll: float
    settings: tuple[str, ...] = ("outdoors",)
    fill: Range = (0.6, 0.94)
    level: Range = (0.2, 0.9)
    closeup: bool = False


KINDS = {
    "quadruped": Kind(
        build_quadruped, QUADRUPED_POINTS, ((-35, 25), (-205, -145), (-70, -35), (-145, -110)), (-2, 20), 3
    ),
    "bird": Kind(build_bird, BIRD_POINTS, ((-45, 25), (-205, -135), (-75, -45), (-135, -105)), (-5, 25), 5),
    "car": Kind(build_car, CAR_POINTS, ((-60, -8), (-172, -120), (-60, 20), (-200, -120), (130, 165)), (4, 20), 1.5),
    "aeroplane": Kind(build_aeroplane, AEROPLANE_POINTS, ((-60, 35), (-215, -120)), (-28, 42), 15),
    "chair": Kind(build_chair, CHAIR_POINTS, ((-75, -15), (-165, -105), (-80, 30)), (8, 30), 2, ("indoors",)),
    "face": Kind(
        build_face,
        FACE_POINTS,
        ((-125, -55), (-140, -40), (-105, -75)),
        (-14, 16),
        8,
        ("indoors", "outdoors"),
        (0.5, 0.74),
        (0.3, 0.6),
        True,
    ),
}
CATEGORIES: tuple[str, ...] = tuple(KINDS)
POINT_NAMES: dict[str, tuple[str, ...]] = {name: kind.points for name, kind in KINDS.items()}
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Geometry:
    """Everything about a scene but its pixels.

    Attributes:
        size: ``(height, width)``.
        points: ``(k, 2)`` xy.
        visible: ``(k,)`` bool: inside the picture, and hidden neither by the object itself nor by anything else.
        box: ``(4,)`` x0, y0, x1, y1 around the whole object, hidden parts too, clipped to the picture.
        blocks, others: parts of the object, and of what may hide it.
        setting: what is behind it.
        feet: place and half width of its shadow, or None in the air.
    """

    size: Size
    points: np.ndarray
    visible: np.ndarray
    box: np.ndarray
    blocks: list[Block]
    others: list[Block]
    setting: str
    feet: tuple[float, float, float] | None


@dataclass(frozen=True)
class Scene:
    """A rendered scene.

    Attributes:
        category: one of :data:`CATEGORIES`.
        image: ``(H, W, 3)`` uint8.
        points: ``(k, 2)`` float64 xy, 0-based, pixel centres at integers.
        visible: ``(k,)`` bool.
        point_names: ``k`` names; left and right are the object's own.
        box: ``(4,)`` x0, y0, x1, y1.
        mask: ``(H, W)`` bool, where the object shows.
    """

    category: str
    image: np.ndarray
    points: np.ndarray
    visible: np.ndarray
    point_names: tuple[str, ...]
    box: np.ndarray
    mask: np.ndarray


def render_scene(category: str, index: int, *, split: str = "train", size: int = 256) -> Scene:
    """Draw scene number ``index`` of a category; ``size`` is the picture's longer side in pixels.

    >>> scene = render_scene("car", 0)
    >>> scene.image.dtype, scene.points.shape, max(scene.image.shape)
    (dtype('uint8'), (12, 2), 256)
    """
    geometry = scene_geometry(category, index, split, size)
    draws = Draws("simsc-scenes", split, category, index, "surroundings")
    horizon = surroundings.horizon_above(draws, geometry.size, geometry.feet)
    backdrop = surroundings.backdrop(draws, geometry.size, geometry.setting, horizon, geometry.feet)
    behind = surroundings.clutter(draws, geometry.size, geometry.setting, horizon)
    blocks = [*behind, *geometry.blocks, *geometry.others]
    buffers = rasterise(blocks, geometry.size)
    mask = cover(buffers[1], len(behind), len(behind) + len(geometry.blocks))
    image = shade(blocks, buffers, backdrop)
    return Scene(
        category=category,
        image=image,
        points=geometry.points.copy(),
        visible=geometry.visible.copy(),
        point_names=POINT_NAMES[category],
        box=geometry.box.copy(),
        mask=mask,
    )


@lru_cache(maxsize=2048)
def scene_geometry(category: str, index: int, split: str, size: int) -> Geometry:
    """Points, visibility and box of a scene, without drawing it."""
    _check(category, index, split, size)
    kind, draws = KINDS[category], Draws("simsc-scenes", split, category, index, "geometry")
    model = kind.build(draws)
    camera, frame_size = _photograph(model, kind, draws, size)
    blocks = model.seen(camera)
    box = _box(blocks, frame_size)
    foot = frame_size[0] if kind.closeup else box[3] + 0.06 * frame_size[0]
    others: list[Block] = [part.seen(camera) for part in model.company]
    if draws.chance(OCCLUDED):
        others += surroundings.occluder(draws, box, None if model.airborne else foot)
    points, visible = _points(model, POINT_NAMES[category], camera, [*blocks, *others], frame_size)
    setting = draws.pick(("sky", "sky", "outdoors")) if model.airborne else draws.pick(kind.settings)
    feet = None if model.airborne or category == "face" else _feet(blocks)
    return Geometry(frame_size, points, visible, box, blocks, others, setting, feet)


def _photograph(model: Model, kind: Kind, draws: Draws, size: int) -> tuple[Camera, Size]:
    camera = Camera.looking(
        draws.uniform(*draws.pick(kind.yaws)), draws.uniform(*kind.pitch), draws.uniform(-kind.roll, kind.roll)
    )
    x0, y0, x1, y1 = _subject(model, camera, kind.closeup)
    height, width = draws.pick(((size, size), (size * 3 // 4, size), (size, size * 3 // 4), (size * 7 // 8, size)))
    scale = draws.uniform(*kind.fill) * min(width / (x1 - x0), height / (y1 - y0))
    room = np.array([width - scale * (x1 - x0), height - scale * (y1 - y0)])
    share = np.array([draws.uniform(0.0, 1.0), draws.uniform(*kind.level)])
    corner = room * share - 0.5 - scale * np.array([x0, y0])
    return replace(camera, scale=scale, offset=np.array([corner[0], corner[1], 0.0])), (height, width)


def _points(
    model: Model, names: tuple[str, ...], camera: Camera, blocks: list[Block], size: Size
) -> tuple[np.ndarray, np.ndarray]:
    places = camera.project(np.stack([model.points[name][0] for name in names]))
    under = np.array([model.points[name][1] for name in names]) * camera.scale
    x, y, z = places.T
    inside = (x >= 0) & (x <= size[1] - 1) & (y >= 0) & (y <= size[0] - 1)
    return places[:, :2].copy(), inside & (z + under >= depth_at(blocks, x, y))


def _subject(model: Model, camera: Camera, closeup: bool) -> np.ndarray:
    if not closeup:
        return _union(model.seen(camera))
    points = camera.project(np.stack([place for place, _ in model.points.values()]))[:, :2]
    return np.concatenate([points.min(axis=0), points.max(axis=0)])


def _union(blocks: list[Block]) -> np.ndarray:
    extents = np.stack([block.extent() for block in blocks])
    return np.concatenate([extents[:, :2].min(axis=0), extents[:, 2:].max(axis=0)])


def _box(blocks: list[Block], size: Size) -> np.ndarray:
    result: np.ndarray = np.clip(_union(blocks), 0, np.array([size[1] - 1, size[0] - 1] * 2))
    return result


def _feet(blocks: list[Block]) -> tuple[float, float, float]:
    x0, y0, x1, y1 = (float(edge) for edge in _union(blocks))
    return (x0 + x1) / 2, y1 - 0.04 * (y1 - y0), (x1 - x0) * 0.55


def _check(category: str, index: int, split: str, size: int) -> None:
    if category not in CATEGORIES:
        raise DataError(unknown_name("category of scenes", category, CATEGORIES))
    if split not in SPLITS:
        raise DataError(unknown_name("split of scenes", split, SPLITS))
    if index < 0 or size < 32:
        raise DataError(f"scenes need an index >= 0 and a size >= 32 pixels, got index {index} and size {size}")
