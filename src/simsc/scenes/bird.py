"""Birds: perched with folded wings, or flying with spread ones."""

from __future__ import annotations

from simsc.scenes.draws import Draws
from simsc.scenes.frames import ROOT, Frame
from simsc.scenes.looks import DARK, WHITE, Look
from simsc.scenes.model import Model
from simsc.scenes.quadruped import SIDES

POINTS = (
    "beak_tip", "crown", "left_eye", "right_eye", "breast", "left_shoulder", "right_shoulder",
    "left_wing_tip", "right_wing_tip", "tail_tip", "left_foot", "right_foot",
)  # fmt: skip


def build(draws: Draws) -> Model:
    """A bird in a random pose."""
    model = Model()
    coat = Look(draws.colour(), draws.colour((0.05, 0.17), (0.05, 0.5), (0.8, 1.0)), "belly", 5, draws.uniform(0, 0.5))
    wing = Look(draws.colour(saturation=(0.3, 0.8), value=(0.25, 0.8)), draws.colour(), "bands", draws.uniform(7, 11))
    flying = draws.chance(0.45)
    model.airborne = flying
    body = ROOT.joint((0, 0.5, 0), z=draws.uniform(0, 18) if flying else draws.uniform(22, 48))
    depth = draws.uniform(0.19, 0.25)
    model.ellipsoid(body, (0, 0, 0), (0.36, depth, depth * 0.92), coat)
    model.point("breast", body, (0.22, -depth * 0.76, 0), 0.06)
    _head(model, draws, coat, body, -20.0 if flying else -35.0)
    _tail(model, draws, wing, body)
    for name, side in SIDES:
        if flying:
            _spread_wing(model, draws, wing, body, name, side)
        else:
            _folded_wing(model, wing, body, name, side, depth)
    _legs(model, draws, body, flying)
    return model


def _head(model: Model, draws: Draws, coat: Look, body: Frame, level: float) -> None:
    size, beak = draws.uniform(0.13, 0.165), draws.uniform(0.1, 0.26)
    head = body.joint((0.36, 0.17, 0), y=draws.uniform(-25, 25), z=level + draws.uniform(-8, 12))
    plain = coat.plain() if draws.chance(0.5) else Look(draws.colour())
    model.limb(body, (0.2, 0.05, 0), (0.36, 0.17, 0), (0.17, size * 0.8), coat.plain())
    model.ellipsoid(head, (0, 0, 0), (size, size * 0.96, size * 0.92), plain)
    horn = Look(draws.colour((0.04, 0.14), (0.7, 1.0), (0.7, 1.0)), gloss=0.2)
    model.limb(head, (size * 0.8, 0, 0), (size + beak, -0.03, 0), (0.06, 0.008), horn)
    model.point("beak_tip", head, (size + beak, -0.03, 0), 0.03)
    model.point("crown", head, (0, size * 0.96, 0), 0.05)
    for name, side in SIDES:
        model.ellipsoid(head, (0.055, 0.035, side * size * 0.78), (0.042, 0.042, 0.028), Look(WHITE))
        model.ellipsoid(head, (0.06, 0.035, side * size * 0.94), (0.028, 0.028, 0.022), Look(DARK, gloss=0.8))
        model.point(f"{name}_eye", head, (0.06, 0.035, side * size * 0.94), 0.035)
    if draws.chance(0.3):
        crest = head.joint((-0.02, size * 0.8, 0), z=draws.uniform(15, 45))
        model.ellipsoid(crest, (0, 0.07, 0), (0.04, 0.1, 0.025), plain)


def _tail(model: Model, draws: Draws, wing: Look, body: Frame) -> None:
    length, fan = draws.uniform(0.14, 0.3), draws.uniform(1.3, 2.6)
    # The block's y axis points backwards along the tail.
    tail = body.joint((-0.3, 0.03, 0), z=90 + draws.uniform(-12, 12))
    model.block(tail, (0, length, 0), (0.022, length, 0.06), wing, top=(0.5, fan))
    model.point("tail_tip", tail, (0, length * 1.96, 0), 0.02 + 0.06 * fan)


def _folded_wing(model: Model, wing: Look, body: Frame, name: str, side: float, depth: float) -> None:
    fold = body.joint((-0.06, 0.03, side * depth * 0.86), y=side * 5, z=10)
    model.ellipsoid(fold, (-0.02, 0, 0), (0.31, 0.13, 0.055), wing)
    model.point(f"{name}_shoulder", fold, (0.2, 0.02, side * 0.035), 0.03)
    model.point(f"{name}_wing_tip", fold, (-0.31, 0, side * 0.02), 0.03)


def _spread_wing(model: Model, draws: Draws, wing: Look, body: Frame, name: str, side: float) -> None:
    lift = draws.uniform(5, 50)
    inner = body.joint((0.08, 0.1, side * 0.14), x=-side * lift)
    model.ellipsoid(inner, (0, 0, side * 0.2), (0.17, 0.03, 0.28), wing)
    outer = inner.joint((0, 0, side * 0.36), x=side * draws.uniform(5, 30), y=side * -draws.uniform(5, 25))
    model.ellipsoid(outer, (-0.03, 0, side * 0.2), (0.13, 0.02, 0.32), wing)
    model.point(f"{name}_shoulder", inner, (0.08, 0.02, side * 0.02), 0.06)
    model.point(f"{name}_wing_tip", outer, (-0.03, 0, side * 0.5), 0.04)


def _legs(model: Model, draws: Draws, body: Frame, flying: bool) -> None:
    skin = Look(draws.colour((0.03, 0.12), (0.5, 0.9), (0.4, 0.9)))
    length = draws.uniform(0.12, 0.34)
    for name, side in SIDES:
        hip = body.place((-0.04, -0.15, side * 0.09))
        ankle = hip + ((-length, -0.05, 0) if flying else (0.03, -length - 0.08, 0))
        model.limb(ROOT, hip, ankle, (0.035, 0.017), skin)
        for spread in (-0.05, 0.0, 0.05):
            toe = ankle + ((-0.08, -0.02, spread) if flying else (0.09, -0.012, spread))
            model.limb(ROOT, ankle, toe, (0.017, 0.01), skin)
        model.point(f"{name}_foot", ROOT, ankle, 0.03)
