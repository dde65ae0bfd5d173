"""Chairs: seat, four legs, and a back of slats, bars or one panel; sometimes arms."""

from __future__ import annotations

from simsc.scenes.draws import Draws
from simsc.scenes.frames import ROOT, Frame
from simsc.scenes.looks import Look
from simsc.scenes.model import Model
from simsc.scenes.quadruped import SIDES

POINTS = (
    "front_left_leg", "front_right_leg", "rear_left_leg", "rear_right_leg",
    "front_left_seat", "front_right_seat", "rear_left_seat", "rear_right_seat",
    "left_back_top", "right_back_top",
)  # fmt: skip


def build(draws: Draws) -> Model:
    """A chair; sides are those of a person who sits on it."""
    model = Model()
    wood = Look(draws.colour((0.04, 0.11), (0.3, 0.8), (0.3, 0.85)), gloss=0.1)
    if draws.chance(0.4):
        wood = Look(draws.colour(), gloss=0.2)
    pattern = draws.pick(("plain", "plain", "stripes", "spots", "bands"))
    cushion = Look(draws.colour(), draws.colour(), pattern, draws.uniform(7, 11)) if draws.chance(0.6) else wood
    half, width = draws.uniform(0.24, 0.3), draws.uniform(0.24, 0.32)
    height = draws.uniform(0.42, 0.58)
    model.block(ROOT, (0, height, 0), (half, 0.03, width), wood)
    model.block(ROOT, (0, height + 0.045, 0), (half * 0.95, 0.03, width * 0.94), cushion, (0.92, 0.92))
    _legs(model, draws, wood, half, width, height)
    _back(model, draws, wood, cushion, ROOT.joint((-half + 0.03, height, 0), z=draws.uniform(2, 16)), width)
    if draws.chance(0.35):
        _arms(model, wood, half, width, height)
    return model


def _legs(model: Model, draws: Draws, wood: Look, half: float, width: float, height: float) -> None:
    splay, thick = draws.uniform(0.0, 0.08), draws.uniform(0.024, 0.036)
    for end, x in (("front", 1.0), ("rear", -1.0)):
        for name, side in SIDES:
            top = (x * (half - 0.03), height - 0.01, side * (width - 0.03))
            foot = (x * (half - 0.03 + splay), 0, side * (width - 0.03 + splay * 0.6))
            model.limb(ROOT, top, foot, (thick, thick * 0.75), wood)
            model.point(f"{end}_{name}_leg", ROOT, foot, 0.04)
            model.point(f"{end}_{name}_seat", ROOT, (x * half, height + 0.02, side * width), 0.05)
    if draws.chance(0.5):
        for side in (-1.0, 1.0):
            low = [x * (half - 0.03 + splay * 0.5) for x in (-1, 1)]
            z = side * (width - 0.03 + splay * 0.3)
            model.limb(ROOT, (low[0], height * 0.45, z), (low[1], height * 0.45, z), (0.018, 0.018), wood)


def _back(model: Model, draws: Draws, wood: Look, cushion: Look, back: Frame, width: float) -> None:
    tall, inner = draws.uniform(0.45, 0.7), width - 0.03
    for name, side in SIDES:
        model.limb(back, (0, 0, side * inner), (0, tall, side * inner), (0.032, 0.028), wood)
        model.point(f"{name}_back_top", back, (0, tall, side * inner), 0.05)
    style = draws.pick(("slats", "bars", "panel"))
    if style == "panel":
        model.block(back, (0.01, tall * 0.58, 0), (0.026, tall * 0.4, inner), cushion)
    elif style == "slats":
        for share in (0.4, 0.66, 0.92):
            model.block(back, (0, tall * share, 0), (0.016, tall * 0.075, inner), wood)
    else:
        model.block(back, (0, tall * 0.94, 0), (0.018, tall * 0.07, inner), wood)
        for share in (-0.6, -0.2, 0.2, 0.6):
            model.limb(back, (0, 0, share * inner), (0, tall * 0.92, share * inner), (0.015, 0.015), wood)


def _arms(model: Model, wood: Look, half: float, width: float, height: float) -> None:
    for side in (-1.0, 1.0):
        z, level = side * (width - 0.01), height + 0.24
        model.limb(ROOT, (half * 0.7, height, z), (half * 0.7, level, z), (0.022, 0.022), wood)
        model.block(ROOT, (0.0, level, z), (half * 0.95, 0.018, 0.035), wood)
