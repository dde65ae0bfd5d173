"""Animals: four-legged ones from dog to horse, birds perched or flying, and human faces."""

from __future__ import annotations

from simsc.scenes.looks import DARK, WHITE, Colour, Draws, Look, fur
from simsc.scenes.parts import SIDES, Model
from simsc.scenes.solids import ROOT, Frame

QUADRUPED_POINTS = (
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "withers", "tail_base", "tail_tip",
    "front_left_paw", "front_right_paw", "hind_left_paw", "hind_right_paw",
)  # fmt: skip
BIRD_POINTS = (
    "beak_tip", "crown", "left_eye", "right_eye", "breast", "left_shoulder", "right_shoulder",
    "left_wing_tip", "right_wing_tip", "tail_tip", "left_foot", "right_foot",
)  # fmt: skip
FACE_POINTS = (
    "left_eye", "right_eye", "left_brow", "right_brow", "nose_tip", "left_mouth", "right_mouth",
    "lower_lip", "chin", "left_ear", "right_ear", "crown",
)  # fmt: skip


def build_quadruped(draws: Draws) -> Model:
    """A quadruped in a random pose."""
    model, coat = Model(), fur(draws)
    legs, girth = draws.uniform(0.32, 0.62), draws.uniform(0.15, 0.21)
    height = legs + girth * 0.6
    _quadruped_body(model, coat, height, girth)
    _quadruped_legs(model, draws, coat, height, girth)
    _quadruped_tail(model, draws, coat, height + girth * 0.45)
    neck = ROOT.joint((0.36, height + girth * 0.3, 0), z=draws.uniform(28, 68))
    length = draws.uniform(0.22, 0.5)
    model.limb(neck, (0, 0, 0), (length, 0, 0), (girth * 0.75, 0.085), coat)
    if draws.chance(0.4):
        mane = Look(draws.colour((0.03, 0.1), (0.2, 0.6), (0.08, 0.35)))
        model.ellipsoid(neck, (length * 0.5, 0.1, 0), (length * 0.62, 0.07, 0.035), mane)
    level = -draws.uniform(45, 75)
    _quadruped_head(model, draws, coat, neck.joint((length, 0, 0), y=draws.uniform(-20, 20), z=level))
    return model


def _quadruped_body(model: Model, coat: Look, height: float, girth: float) -> None:
    model.ellipsoid(ROOT, (0.2, height, 0), (0.3, girth * 1.08, girth * 0.88), coat)
    model.ellipsoid(ROOT, (-0.26, height + 0.01, 0), (0.28, girth, girth * 0.86), coat)
    model.limb(ROOT, (-0.26, height, 0), (0.2, height, 0), (girth * 0.86, girth * 0.88), coat)
    model.point("withers", ROOT, (0.22, height + girth * 1.07, 0), 0.06)


def _quadruped_legs(model: Model, draws: Draws, coat: Look, height: float, girth: float) -> None:
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


def _quadruped_tail(model: Model, draws: Draws, coat: Look, height: float) -> None:
    base = ROOT.joint((-0.52, height, 0), y=draws.uniform(-20, 20), z=draws.uniform(110, 250))
    length = draws.uniform(0.1, 0.24)
    end = base.joint((length, 0, 0), z=draws.uniform(-35, 35))
    thick = draws.uniform(0.02, 0.045)
    model.limb(base, (0, 0, 0), (length, 0, 0), (thick * 1.2, thick), coat)
    tip = Look(coat.second) if coat.pattern != "plain" else coat
    model.limb(end, (0, 0, 0), (length, 0, 0), (thick, thick * draws.uniform(0.5, 1.5)), tip)
    model.point("tail_base", base, (0, 0, 0), 0.09)
    model.point("tail_tip", end, (length, 0, 0), 0.06)


def _quadruped_head(model: Model, draws: Draws, coat: Look, head: Frame) -> None:
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


def build_bird(draws: Draws) -> Model:
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
    _bird_head(model, draws, coat, body, -20.0 if flying else -35.0)
    _bird_tail(model, draws, wing, body)
    for name, side in SIDES:
        if flying:
            _bird_spread_wing(model, draws, wing, body, name, side)
        else:
            _bird_folded_wing(model, wing, body, name, side, depth)
    _bird_legs(model, draws, body, flying)
    return model


def _bird_head(model: Model, draws: Draws, coat: Look, body: Frame, level: float) -> None:
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


def _bird_tail(model: Model, draws: Draws, wing: Look, body: Frame) -> None:
    length, fan = draws.uniform(0.14, 0.3), draws.uniform(1.3, 2.6)
    # The block's y axis points backwards along the tail.
    tail = body.joint((-0.3, 0.03, 0), z=90 + draws.uniform(-12, 12))
    model.block(tail, (0, length, 0), (0.022, length, 0.06), wing, top=(0.5, fan))
    model.point("tail_tip", tail, (0, length * 1.96, 0), 0.02 + 0.06 * fan)


def _bird_folded_wing(model: Model, wing: Look, body: Frame, name: str, side: float, depth: float) -> None:
    fold = body.joint((-0.06, 0.03, side * depth * 0.86), y=side * 5, z=10)
    model.ellipsoid(fold, (-0.02, 0, 0), (0.31, 0.13, 0.055), wing)
    model.point(f"{name}_shoulder", fold, (0.2, 0.02, side * 0.035), 0.03)
    model.point(f"{name}_wing_tip", fold, (-0.31, 0, side * 0.02), 0.03)


def _bird_spread_wing(model: Model, draws: Draws, wing: Look, body: Frame, name: str, side: float) -> None:
    lift = draws.uniform(5, 50)
    inner = body.joint((0.08, 0.1, side * 0.14), x=-side * lift)
    model.ellipsoid(inner, (0, 0, side * 0.2), (0.17, 0.03, 0.28), wing)
    outer = inner.joint((0, 0, side * 0.36), x=side * draws.uniform(5, 30), y=side * -draws.uniform(5, 25))
    model.ellipsoid(outer, (-0.03, 0, side * 0.2), (0.13, 0.02, 0.32), wing)
    model.point(f"{name}_shoulder", inner, (0.08, 0.02, side * 0.02), 0.06)
    model.point(f"{name}_wing_tip", outer, (-0.03, 0, side * 0.5), 0.04)


def _bird_legs(model: Model, draws: Draws, body: Frame, flying: bool) -> None:
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


def build_face(draws: Draws) -> Model:
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
    _face_eyes(model, draws, hair, head)
    _face_nose_and_mouth(model, draws, tone, head)
    for name, side in SIDES:
        model.ellipsoid(head, (-0.01, 0.0, side * (wide + 0.005)), (0.045, 0.075, 0.03), skin)
        model.point(f"{name}_ear", head, (0.0, 0.0, side * (wide + 0.03)), 0.03)
    _face_hair(model, draws, hair, head, wide)
    model.company = _face_bust(draws, skin).parts
    return model


def _face_bust(draws: Draws, skin: Look) -> Model:
    model = Model()
    model.limb(ROOT, (-0.04, -0.15, 0), (-0.06, -0.42, 0), (0.12, 0.13), skin)
    shirt = Look(
        draws.colour(), draws.colour(), draws.pick(("plain", "bands", "stripes", "spots")), draws.uniform(9, 14)
    )
    model.ellipsoid(ROOT, (-0.07, -0.62, 0), (0.2, 0.24, 0.42), shirt)
    model.limb(ROOT, (-0.07, -0.65, 0), (-0.07, -1.6, 0), (0.22, 0.26), shirt)
    return model


def _face_eyes(model: Model, draws: Draws, hair: Look, head: Frame) -> None:
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


def _face_nose_and_mouth(model: Model, draws: Draws, tone: Colour, head: Frame) -> None:
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


def _face_hair(model: Model, draws: Draws, hair: Look, head: Frame, wide: float) -> None:
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
