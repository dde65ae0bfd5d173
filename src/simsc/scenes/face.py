"""Human faces: shape, skin, hair, brows, beard and expression vary."""

from __future__ import annotations

from simsc.scenes.draws import Colour, Draws
from simsc.scenes.frames import ROOT, Frame
from simsc.scenes.looks import DARK, WHITE, Look
from simsc.scenes.model import Model
from simsc.scenes.quadruped import SIDES

POINTS = (
    "left_eye", "right_eye", "left_brow", "right_brow", "nose_tip", "left_mouth", "right_mouth",
    "lower_lip", "chin", "left_ear", "right_ear", "crown",
)  # fmt: skip


def build(draws: Draws) -> Model:
    """A head; neck and shoulders keep it company."""
    model = Model()
    tone = draws.colour((0.03, 0.085), (0.25, 0.6), (0.4, 0.98))
    skin = Look(tone, gloss=0.06)
    hair = Look(
        draws.pick((DARK, (0.25, 0.14, 0.07), (0.5, 0.3, 0.12), (0.85, 0.68, 0.35), (0.6, 0.6, 0.6), (0.55, 0.2, 0.08)))
    )
    head = ROOT.joint((0, 0, 0), x=draws.uniform(-10, 10))
    wide = draws.uniform(0.2, 0.245)
    model.ellipsoid(head, (0, 0.03, 0), (0.25, 0.3, wide), skin)
    jaw = draws.uniform(0.16, 0.22)
    model.ellipsoid(head, (0.045, -0.12, 0), (0.185, jaw, wide * 0.78), skin)
    model.point("chin", head, (0.14, -0.12 - jaw * 0.84, 0), 0.09)
    _eyes(model, draws, hair, head)
    _nose_and_mouth(model, draws, tone, head)
    for name, side in SIDES:
        model.ellipsoid(head, (-0.01, 0.0, side * (wide + 0.005)), (0.045, 0.075, 0.03), skin)
        model.point(f"{name}_ear", head, (0.0, 0.0, side * (wide + 0.03)), 0.03)
    _hair(model, draws, hair, head, wide)
    model.company = _bust(draws, skin).parts
    return model


def _bust(draws: Draws, skin: Look) -> Model:
    model = Model()
    model.limb(ROOT, (-0.04, -0.15, 0), (-0.06, -0.42, 0), (0.12, 0.13), skin)
    shirt = Look(
        draws.colour(), draws.colour(), draws.pick(("plain", "bands", "stripes", "spots")), draws.uniform(9, 14)
    )
    model.ellipsoid(ROOT, (-0.07, -0.62, 0), (0.2, 0.24, 0.42), shirt)
    model.limb(ROOT, (-0.07, -0.65, 0), (-0.07, -1.6, 0), (0.22, 0.26), shirt)
    return model


def _eyes(model: Model, draws: Draws, hair: Look, head: Frame) -> None:
    apart, size = draws.uniform(0.085, 0.105), draws.uniform(0.9, 1.25)
    iris = Look(draws.colour((0.05, 0.6), (0.4, 0.8), (0.25, 0.6)))
    raised, tilt, gaze = draws.uniform(0.085, 0.12), draws.uniform(-0.02, 0.02), draws.uniform(-0.012, 0.012)
    for name, side in SIDES:
        eye = head.joint((0.205, 0.03, side * apart), y=-side * 18)
        model.ellipsoid(eye, (0, 0, 0), (0.035, 0.033 * size, 0.052 * size), Look(WHITE))
        model.ellipsoid(eye, (0.026, 0, gaze), (0.016, 0.026 * size, 0.026 * size), iris)
        model.ellipsoid(eye, (0.044, 0, gaze), (0.008, 0.013 * size, 0.013 * size), Look(DARK, gloss=0.9))
        model.point(f"{name}_eye", eye, (0.044, 0, gaze), 0.02)
        inner = (0.245, 0.03 + raised - tilt, side * (apart - 0.05))
        outer = (0.205, 0.03 + raised + tilt, side * (apart + 0.06))
        model.limb(head, inner, outer, (0.017, 0.012), hair)
        middle = (0.232, 0.03 + raised, side * apart)
        model.point(f"{name}_brow", head, middle, 0.03)


def _nose_and_mouth(model: Model, draws: Draws, tone: Colour, head: Frame) -> None:
    nose = Look((tone[0] * 0.93, tone[1] * 0.87, tone[2] * 0.85), gloss=0.1)
    length, broad = draws.uniform(0.08, 0.12), draws.uniform(0.03, 0.048)
    model.limb(head, (0.24, 0.02, 0), (0.275, 0.02 - length, 0), (0.018, broad), nose)
    model.point("nose_tip", head, (0.275 + broad * 0.85, 0.02 - length, 0), 0.04)
    lips = Look(draws.colour((-0.03, 0.02), (0.45, 0.7), (0.5, 0.8)))
    half, opening, smile = draws.uniform(0.06, 0.09), draws.uniform(0, 0.03), draws.uniform(-0.012, 0.03)
    level = -0.165
    if opening > 0.012:
        model.ellipsoid(head, (0.205, level, 0), (0.03, opening + 0.012, half * 0.9), Look(DARK))
        model.ellipsoid(head, (0.21, level + opening * 0.5, 0), (0.028, 0.012, half * 0.7), Look(WHITE))
    for edge, thick in ((opening, 0.013), (-opening, 0.017)):
        for side in (-1.0, 1.0):
            corner = (0.185, level + smile, side * half)
            model.limb(head, (0.222, level + edge, 0), corner, (thick, 0.009), lips)
    model.point("lower_lip", head, (0.235, level - opening, 0), 0.03)
    for name, side in SIDES:
        model.point(f"{name}_mouth", head, (0.19, level + smile, side * half), 0.03)


def _hair(model: Model, draws: Draws, hair: Look, head: Frame, wide: float) -> None:
    style = draws.pick(("short", "long", "long", "fringe", "bald", "cap"))
    top = 0.33 if style == "bald" else 0.335 + draws.uniform(0.02, 0.05)
    model.point("crown", head, (0, top, 0), 0.06)
    if style != "bald":
        line = {"short": -0.12, "long": -0.08, "fringe": 0.02, "cap": -0.16}[style]
        cut = [(0.72, -0.69, 0, line)]
        look = Look(draws.colour(), gloss=0.1) if style == "cap" else hair
        model.ellipsoid(head, (-0.012, top - 0.325, 0), (0.275, 0.325, wide + 0.03), look, cuts=cut)
        if style == "cap":
            model.ellipsoid(head, (0.2, 0.2, 0), (0.2, 0.02, 0.17), look)
    if style == "long":
        for side in (-1.0, 1.0):
            model.limb(head, (-0.06, 0.1, side * wide), (-0.08, -0.36, side * wide * 1.05), (0.09, 0.07), hair)
        model.ellipsoid(head, (-0.16, -0.1, 0), (0.11, 0.34, wide * 1.1), hair)
    if style in ("short", "bald", "cap") and draws.chance(0.45):
        beard = [(0, 1, 0, -0.42)]
        model.ellipsoid(head, (0.052, -0.12, 0), (0.19, 0.225, wide * 0.82), hair, cuts=beard)
