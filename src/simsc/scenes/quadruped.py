"""Quadrupeds: from dog to horse, by the length of legs, neck, muzzle, ears and tail."""

from __future__ import annotations

from simsc.scenes.draws import Draws
from simsc.scenes.frames import ROOT, Frame
from simsc.scenes.looks import DARK, WHITE, Look, fur
from simsc.scenes.model import Model

POINTS = (
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "withers", "tail_base", "tail_tip",
    "front_left_paw", "front_right_paw", "hind_left_paw", "hind_right_paw",
)  # fmt: skip
SIDES = (("left", -1.0), ("right", 1.0))


def build(draws: Draws) -> Model:
    """A quadruped in a random pose."""
    model, coat = Model(), fur(draws)
    legs, girth = draws.uniform(0.32, 0.62), draws.uniform(0.15, 0.21)
    height = legs + girth * 0.6
    _body(model, coat, height, girth)
    _legs(model, draws, coat, height, girth)
    _tail(model, draws, coat, height + girth * 0.45)
    neck = ROOT.joint((0.36, height + girth * 0.3, 0), z=draws.uniform(28, 68))
    length = draws.uniform(0.22, 0.5)
    model.limb(neck, (0, 0, 0), (length, 0, 0), (girth * 0.75, 0.085), coat)
    if draws.chance(0.4):
        mane = Look(draws.colour((0.03, 0.1), (0.2, 0.6), (0.08, 0.35)))
        model.ellipsoid(neck, (length * 0.5, 0.1, 0), (length * 0.62, 0.07, 0.035), mane)
    level = -draws.uniform(45, 75)
    _head(model, draws, coat, neck.joint((length, 0, 0), y=draws.uniform(-20, 20), z=level))
    return model


def _body(model: Model, coat: Look, height: float, girth: float) -> None:
    model.ellipsoid(ROOT, (0.2, height, 0), (0.3, girth * 1.08, girth * 0.88), coat)
    model.ellipsoid(ROOT, (-0.26, height + 0.01, 0), (0.28, girth, girth * 0.86), coat)
    model.limb(ROOT, (-0.26, height, 0), (0.2, height, 0), (girth * 0.86, girth * 0.88), coat)
    model.point("withers", ROOT, (0.22, height + girth * 1.07, 0), 0.06)


def _legs(model: Model, draws: Draws, coat: Look, height: float, girth: float) -> None:
    hoof = Look(draws.pick((DARK, WHITE, (0.3, 0.2, 0.14))))
    gait, thickness = draws.uniform(0, 24), draws.uniform(0.042, 0.062)
    for end, x, bend in (("front", 0.32, -1.0), ("hind", -0.38, 1.0)):
        for side, z in SIDES:
            swing = draws.uniform(-gait, gait)
            upper = ROOT.joint((x, height - girth * 0.25, z * girth * 0.62), z=-90 + swing - 8 * bend)
            half = (height - girth * 0.25) / 2
            model.limb(upper, (0, 0, 0), (half, 0, 0), (thickness * 1.75, thickness), coat)
            lower = upper.joint((half, 0, 0), z=bend * draws.uniform(6, 18) - swing * 0.3)
            model.limb(lower, (0, 0, 0), (half * 0.9, 0, 0), (thickness, thickness * 0.75), coat)
            foot = lower.joint((half * 0.94, 0, 0), z=90 - swing * 0.7)
            model.ellipsoid(foot, (0.02, 0, 0), (thickness * 1.35, thickness * 0.9, thickness), hoof)
            model.point(f"{end}_{side}_paw", foot, (0.02, 0, 0), thickness * 1.3)


def _tail(model: Model, draws: Draws, coat: Look, height: float) -> None:
    base = ROOT.joint((-0.52, height, 0), y=draws.uniform(-20, 20), z=draws.uniform(110, 250))
    length = draws.uniform(0.1, 0.24)
    end = base.joint((length, 0, 0), z=draws.uniform(-35, 35))
    thick = draws.uniform(0.02, 0.045)
    model.limb(base, (0, 0, 0), (length, 0, 0), (thick * 1.2, thick), coat)
    tip = Look(coat.second) if coat.pattern != "plain" else coat
    model.limb(end, (0, 0, 0), (length, 0, 0), (thick, thick * draws.uniform(0.5, 1.5)), tip)
    model.point("tail_base", base, (0, 0, 0), 0.09)
    model.point("tail_tip", end, (length, 0, 0), 0.06)


def _head(model: Model, draws: Draws, coat: Look, head: Frame) -> None:
    plain = coat.plain()
    muzzle = draws.uniform(0.13, 0.26)
    snout = Look(coat.second) if draws.chance(0.5) else plain
    model.ellipsoid(head, (0.03, 0.01, 0), (0.135, 0.11, 0.1), plain)
    model.limb(head, (0.06, -0.02, 0), (0.06 + muzzle, -0.055, 0), (0.08, 0.052), snout)
    model.ellipsoid(head, (0.1 + muzzle, -0.035, 0), (0.028, 0.026, 0.034), Look(DARK, gloss=0.5))
    model.point("nose", head, (0.105 + muzzle, -0.035, 0), 0.045)
    ear, spread, tilt = draws.uniform(0.09, 0.22), draws.uniform(5, 60), draws.uniform(-30, 15)
    for side, z in SIDES:
        model.ellipsoid(head, (0.1, 0.045, z * 0.075), (0.034, 0.034, 0.026), Look(WHITE))
        model.ellipsoid(head, (0.112, 0.047, z * 0.095), (0.023, 0.025, 0.018), Look(DARK, gloss=0.8))
        model.point(f"{side}_eye", head, (0.112, 0.047, z * 0.095), 0.03)
        lobe = head.joint((-0.03, 0.07, z * 0.065), x=z * spread, z=-tilt)
        model.ellipsoid(lobe, (0, ear * 0.45, 0), (0.026, ear * 0.55, 0.045), plain)
        model.point(f"{side}_ear", lobe, (0, ear * 0.93, 0), 0.05)
