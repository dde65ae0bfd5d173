"""What is behind and before the object: sky, hills, ground or a room, clutter, and occluders."""

from __future__ import annotations

import numpy as np

from simsc.coordinates import Size
from simsc.scenes.looks import Colour, Draws, Look
from simsc.scenes.parts import Model
from simsc.scenes.solids import ROOT, Block, Camera

BEHIND, BEFORE = -1e4, 1e4
Feet = tuple[float, float, float]


def horizon_above(draws: Draws, size: Size, feet: Feet | None) -> float:
    """Height of the horizon as a share of the picture, above the feet of an object on the ground."""
    horizon = draws.uniform(0.3, 0.62)
    return horizon if feet is None else max(0.12, min(horizon, feet[1] / size[0] - 0.12))


def backdrop(draws: Draws, size: Size, setting: str, horizon: float, feet: Feet | None) -> np.ndarray:
    """The empty stage ``(H, W, 3)`` uint8.

    Args:
        draws: source of the choices.
        size: of the picture.
        setting: ``outdoors``, ``indoors`` or ``sky``.
        horizon: share of the picture above the ground.
        feet: x, y and half width of the shadow on the ground, or None for an object in the air.
    """
    height, width = size
    y = (np.arange(height, dtype=np.float32) / height)[:, None, None]
    picture = _upper(draws, y, setting) + np.zeros((1, width, 1), dtype=np.float32)
    if setting == "outdoors":
        _hills(draws, picture, horizon)
    if setting != "sky":
        _ground(draws, picture, horizon, setting)
    if feet is not None and setting != "sky":
        _shadow(picture, feet)
    rough, fine = _noise(draws, size, 9), _noise(draws, size, 60)
    picture *= (np.float32(0.84) + np.float32(0.22) * rough + np.float32(0.1) * fine)[:, :, None]
    result: np.ndarray = (np.clip(picture, 0, 1) * np.float32(255)).astype(np.uint8)
    return result


def clutter(draws: Draws, size: Size, setting: str, horizon: float) -> list[Block]:
    """Things behind the object: trees, bushes and rocks; boxes and frames; clouds."""
    height, width = size
    blocks: list[Block] = []
    for _ in range(2 + draws.integer(4)):
        at = (draws.uniform(0, width), height * (horizon + draws.uniform(0.02, 0.2)))
        if setting == "sky":
            at = (at[0], height * draws.uniform(0.1, 0.95))
        scale = min(size) * draws.uniform(0.18, 0.5)
        blocks += _thing(draws, setting).seen(_stand(at, scale, BEHIND + draws.uniform(0, 500)))
    return blocks


def occluder(draws: Draws, box: np.ndarray, foot: float | None) -> list[Block]:
    """One thing that hides an edge of the object's box ``(4,)``; it stands at ``foot``, or floats if that is None."""
    x = box[0] + (box[2] - box[0]) * draws.pick((draws.uniform(-0.05, 0.25), draws.uniform(0.75, 1.05)))
    scale = (box[3] - box[1]) * draws.uniform(0.35, 0.8)
    setting = "sky" if foot is None else draws.pick(("outdoors", "indoors", "post"))
    return _thing(draws, setting).seen(_stand((x, (box[1] + box[3]) / 2 if foot is None else foot), scale, BEFORE))


def _stand(at: tuple[float, float], scale: float, depth: float) -> Camera:
    view = Camera.looking(-60, 8).view
    return Camera(view, scale, np.array([at[0], at[1], depth]))


def _thing(draws: Draws, setting: str) -> Model:
    model = Model()
    if setting == "sky":
        for step in range(3 + draws.integer(3)):
            radii = (0.2, draws.uniform(0.1, 0.2), draws.uniform(0.2, 0.35))
            model.ellipsoid(ROOT, (0, draws.uniform(-0.06, 0.1), -0.5 + 0.25 * step), radii, Look((0.97, 0.97, 1.0)))
    elif setting == "post":
        model.limb(ROOT, (0, -1, 0), (0, 3, 0), (0.13, 0.13), Look(draws.colour(), draws.colour(), "bands", 2.5))
    elif setting == "indoors":
        look = Look(
            draws.colour(), draws.colour(), draws.pick(("plain", "stripes", "spots", "bands")), draws.uniform(3, 6)
        )
        half = (draws.uniform(0.15, 0.4), draws.uniform(0.2, 0.5), draws.uniform(0.15, 0.4))
        model.block(ROOT, (0, half[1], 0), half, look, (draws.uniform(0.6, 1.0), draws.uniform(0.6, 1.0)))
    else:
        draws.pick((_tree, _bush, _rock))(model, draws)
    return model


def _tree(model: Model, draws: Draws) -> None:
    leaf = Look(draws.colour((0.2, 0.42), (0.35, 0.8), (0.25, 0.6)))
    tall = draws.uniform(0.8, 1.3)
    model.limb(ROOT, (0, 0, 0), (0, tall, 0), (0.08, 0.05), Look((0.33, 0.22, 0.14)))
    for _ in range(4):
        at = (draws.uniform(-0.2, 0.2), tall + draws.uniform(-0.2, 0.3), draws.uniform(-0.25, 0.25))
        model.ellipsoid(ROOT, at, (0.3, draws.uniform(0.25, 0.4), 0.3), leaf)


def _bush(model: Model, draws: Draws) -> None:
    leaf = Look(draws.colour((0.18, 0.42), (0.4, 0.8), (0.25, 0.6)), draws.colour(), "spots", draws.uniform(5, 9))
    for step in range(3):
        radii = (0.25, draws.uniform(0.25, 0.42), 0.28)
        model.ellipsoid(ROOT, (0, draws.uniform(0.1, 0.25), -0.3 + 0.3 * step), radii, leaf)


def _rock(model: Model, draws: Draws) -> None:
    stone = Look(draws.colour((0.05, 0.7), (0.03, 0.15), (0.35, 0.65)))
    model.block(ROOT, (0, 0.2, 0), (0.35, 0.25, 0.4), stone, (0.55, 0.6), (draws.uniform(-0.2, 0.2), 0.1))


def _upper(draws: Draws, y: np.ndarray, setting: str) -> np.ndarray:
    if setting == "indoors":
        low = high = _vector(draws.colour(saturation=(0.08, 0.4), value=(0.55, 0.95)))
    else:
        high = _vector(draws.colour((0.52, 0.64), (0.3, 0.75), (0.65, 0.98)))
        low = _vector(
            draws.pick(
                (draws.colour((0.5, 0.6), (0.05, 0.2), (0.9, 1.0)), draws.colour((0.02, 0.12), (0.1, 0.4), (0.9, 1.0)))
            )
        )
    result: np.ndarray = high * (1 - y) + low * y
    return result


def _hills(draws: Draws, picture: np.ndarray, horizon: float) -> None:
    height, width = picture.shape[:2]
    rows = np.arange(height, dtype=np.float32)[:, None]
    for layer in range(1 + draws.integer(3)):
        colour = _vector(draws.colour((0.25, 0.55), (0.15, 0.45), (0.45 - 0.08 * layer, 0.75 - 0.1 * layer)))
        ridge = _enlarge(draws.grid(1, 5), (1, width))
        top = height * (np.float32(horizon - 0.22 + 0.07 * layer) + np.float32(0.16) * (1 - ridge))
        np.copyto(picture, colour, where=(rows > top)[:, :, None])


def _ground(draws: Draws, picture: np.ndarray, horizon: float, setting: str) -> None:
    first = int(horizon * picture.shape[0])
    if setting == "indoors":
        colour = _vector(draws.colour((0.03, 0.12), (0.2, 0.6), (0.3, 0.75)))
    else:
        colour = _vector(draws.colour((0.09, 0.36), (0.25, 0.65), (0.4, 0.75)))
    fade = np.linspace(1.1, 0.8, picture.shape[0] - first, dtype=np.float32)[:, None, None]
    picture[first:] = colour * fade
    if setting == "indoors":
        picture[max(0, first - 4) : first] = colour * np.float32(0.6)


def _shadow(picture: np.ndarray, feet: Feet) -> None:
    x, y, half = feet
    columns = (np.arange(picture.shape[1], dtype=np.float32)[None, :] - np.float32(x)) / np.float32(half)
    rows = (np.arange(picture.shape[0], dtype=np.float32)[:, None] - np.float32(y)) / np.float32(half * 0.22)
    inside = np.clip(np.float32(1.4) - np.float32(1.4) * (columns * columns + rows * rows), 0, 1)
    picture *= (1 - np.float32(0.5) * inside)[:, :, None]


def _noise(draws: Draws, size: Size, cells: int) -> np.ndarray:
    return _enlarge(draws.grid(cells, cells), size)


def _enlarge(grid: np.ndarray, size: Size) -> np.ndarray:
    for axis in (0, 1):
        places = np.linspace(0, grid.shape[axis] - 1, size[axis], dtype=np.float64)
        first = np.minimum(places.astype(np.int64), max(grid.shape[axis] - 2, 0))
        share = (places - first).astype(np.float32)
        share = (share * share * (3 - 2 * share)).reshape((-1, 1) if axis == 0 else (1, -1))
        after = np.minimum(first + 1, grid.shape[axis] - 1)
        grid = grid.take(first, axis) * (1 - share) + grid.take(after, axis) * share
    return grid


def _vector(colour: Colour) -> np.ndarray:
    return np.asarray(colour, dtype=np.float32)
