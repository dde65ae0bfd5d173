"""Things: cars, aeroplanes and chairs."""

from __future__ import annotations

from typing import NamedTuple

from simsc.scenes.looks import DARK, WHITE, Draws, Look
from simsc.scenes.parts import SIDES, Model
from simsc.scenes.solids import ROOT, Frame

CAR_POINTS = (
    "front_left_wheel", "front_right_wheel", "rear_left_wheel", "rear_right_wheel",
    "left_headlight", "right_headlight", "left_taillight", "right_taillight",
    "front_left_roof", "front_right_roof", "rear_left_roof", "rear_right_roof",
)  # fmt: skip
AEROPLANE_POINTS = (
    "nose", "cockpit", "left_wing_tip", "right_wing_tip", "left_wing_root", "right_wing_root",
    "left_engine", "right_engine", "fin_top", "tail_end", "left_tailplane_tip", "right_tailplane_tip",
)  # fmt: skip
CHAIR_POINTS = (
    "front_left_leg", "front_right_leg", "rear_left_leg", "rear_right_leg",
    "front_left_seat", "front_right_seat", "rear_left_seat", "rear_right_seat",
    "left_back_top", "right_back_top",
)  # fmt: skip


class Cabin(NamedTuple):
    """Where the glass house sits on the body, and how its roof tapers."""

    x: float
    half: float
    top: float
    shift: float
    height: float


CABINS = (
    Cabin(-0.1, 0.58, 0.6, -0.04, 0.17),
    Cabin(-0.3, 0.64, 0.68, -0.16, 0.19),
    Cabin(-0.18, 0.78, 0.84, -0.12, 0.24),
    Cabin(0.12, 0.42, 0.66, -0.1, 0.19),
)


def build_car(draws: Draws) -> Model:
    """A car, its front wheels turned at random."""
    model = Model()
    paint = Look(draws.colour(saturation=(0.5, 0.95), value=(0.5, 0.95)), gloss=0.35)
    if draws.chance(0.25):
        paint = Look(draws.pick((WHITE, (0.6, 0.62, 0.65), (0.17, 0.18, 0.2))), gloss=0.35)
    width, ride = draws.uniform(0.38, 0.45), draws.uniform(0.0, 0.06)
    sill = 0.17 + ride
    belt = sill + draws.uniform(0.27, 0.33)
    model.block(ROOT, (0, (sill + belt) / 2, 0), (0.97, (belt - sill) / 2, width), paint, top=(0.96, 0.92))
    model.block(ROOT, (0, sill + 0.03, 0), (1.0, 0.07, width * 0.97), Look((0.22, 0.22, 0.24)))
    _car_cabin(model, draws, paint, belt, width)
    _car_lights(model, draws, belt, width)
    _car_wheels(model, draws, width, ride)
    _car_doors(model, paint, sill, belt, width)
    return model


def _car_cabin(model: Model, draws: Draws, paint: Look, belt: float, width: float) -> None:
    cabin = draws.pick(CABINS)
    height = cabin.height * draws.uniform(0.9, 1.12)
    glass = Look((0.2, 0.27, 0.34), gloss=0.5)
    wide, narrow = width * 0.9, width * 0.9 * 0.82
    shift = cabin.shift * cabin.half
    model.block(
        ROOT, (cabin.x, belt + height, 0), (cabin.half, height, wide), glass, (cabin.top, 0.82), (cabin.shift, 0)
    )
    roof, long = belt + 2 * height, cabin.half * cabin.top
    model.block(ROOT, (cabin.x + shift, roof + 0.015, 0), (long + 0.02, 0.024, narrow + 0.02), paint, (0.9, 0.9))
    for name, side in SIDES:
        for end, along in (("front", 1.0), ("middle", -0.05), ("rear", -1.0)):
            foot = (cabin.x + along * cabin.half, belt, side * wide)
            head = (cabin.x + shift + along * long, roof, side * narrow)
            model.limb(ROOT, foot, head, (0.03, 0.026), paint)
            if end != "middle":
                model.point(f"{end}_{name}_roof", ROOT, head, 0.06)
        mirror = (cabin.x + cabin.half * 0.78, belt + 0.05, side * (width + 0.05))
        model.ellipsoid(ROOT, mirror, (0.035, 0.035, 0.055), paint)
    if cabin is CABINS[3]:
        model.block(ROOT, (-0.62, belt, 0), (0.3, 0.012, width * 0.8), Look((0.13, 0.13, 0.14)))


def _car_lights(model: Model, draws: Draws, belt: float, width: float) -> None:
    lamp, size = Look((1.0, 0.97, 0.72), gloss=0.6), draws.uniform(0.055, 0.08)
    for name, side in SIDES:
        front = (0.945, belt - 0.1, side * width * 0.74)
        model.ellipsoid(ROOT, front, (0.04, size, size * 1.25), lamp)
        model.point(f"{name}_headlight", ROOT, (0.975, belt - 0.1, side * width * 0.74), 0.03)
        model.block(ROOT, (-0.955, belt - 0.1, side * width * 0.78), (0.02, size, 0.06), Look((0.85, 0.08, 0.08)))
        model.point(f"{name}_taillight", ROOT, (-0.975, belt - 0.1, side * width * 0.78), 0.03)
    grille = Look((0.1, 0.1, 0.11), (0.5, 0.5, 0.52), "bands", 22)
    model.block(ROOT, (0.958, belt - 0.13, 0), (0.02, 0.06, width * 0.4), grille)
    for end in (-1.0, 1.0):
        model.block(ROOT, (end * 0.995, belt - 0.27, 0), (0.012, 0.03, 0.12), Look(WHITE))


def _car_wheels(model: Model, draws: Draws, width: float, ride: float) -> None:
    radius, steer = 0.175 + ride * 0.6, draws.uniform(-22, 22)
    tyre, rim = Look((0.1, 0.1, 0.11)), Look(draws.pick(((0.75, 0.76, 0.78), (0.55, 0.56, 0.6), WHITE)), gloss=0.3)
    for end, x, turn in (("front", 0.6, steer), ("rear", -0.6, 0.0)):
        for name, side in SIDES:
            arch = (x, radius, side * (width - 0.075))
            model.cylinder(ROOT, arch, (radius * 1.22, radius * 1.22, 0.079), Look(DARK))
            axle = ROOT.joint((x, radius, side * (width - 0.055)), y=turn)
            model.cylinder(axle, (0, 0, 0), (radius, radius, 0.075), tyre)
            model.cylinder(axle, (0, 0, 0), (radius * 0.62, radius * 0.62, 0.08), rim)
            model.cylinder(axle, (0, 0, 0), (radius * 0.2, radius * 0.2, 0.085), Look((0.3, 0.3, 0.32)))
            model.point(f"{end}_{name}_wheel", axle, (0, 0, side * 0.085), 0.03)


def _car_doors(model: Model, paint: Look, sill: float, belt: float, width: float) -> None:
    line = Look((paint.colour[0] * 0.45, paint.colour[1] * 0.45, paint.colour[2] * 0.45))
    middle, half = (sill + belt) / 2 + 0.03, (belt - sill) / 2 - 0.05
    for side in (-1.0, 1.0):
        for x in (0.33, -0.12):
            model.block(ROOT, (x, middle, side * width * 0.97), (0.006, half, 0.012), line)
        model.block(ROOT, (-0.03, belt - 0.08, side * width * 0.95), (0.045, 0.01, 0.014), line)


def build_aeroplane(draws: Draws) -> Model:
    """An aeroplane in flight."""
    model = Model(airborne=True)
    base = draws.pick((WHITE, (0.8, 0.82, 0.85), draws.colour(saturation=(0.1, 0.5), value=(0.8, 1.0))))
    accent = draws.colour(saturation=(0.65, 1.0), value=(0.45, 0.9))
    radius = draws.uniform(0.1, 0.145)
    _aeroplane_fuselage(model, draws, Look(base, accent, "belly", 1, draws.uniform(0.02, 0.06), 0.25), radius)
    _aeroplane_tail(model, draws, Look(accent, gloss=0.2), Look(base, gloss=0.2), radius)
    for name, side in SIDES:
        _aeroplane_wing(model, draws, Look(base, gloss=0.2), radius, name, side)
    _aeroplane_propeller(model, draws, radius)
    return model


def _aeroplane_fuselage(model: Model, draws: Draws, paint: Look, radius: float) -> None:
    model.limb(ROOT, (-0.5, 0, 0), (0.68, 0, 0), (radius, radius), paint)
    model.ellipsoid(ROOT, (0.68, 0, 0), (draws.uniform(0.2, 0.32), radius, radius), paint)
    nose = float(model.parts[-1].radii[0]) + 0.68
    model.limb(ROOT, (-0.5, 0, 0), (-1.0, radius * 0.55, 0), (radius, radius * 0.3), paint)
    glass = Look((0.12, 0.16, 0.22), gloss=0.7)
    model.ellipsoid(ROOT, (0.72, radius * 0.42, 0), (0.13, radius * 0.62, radius * 0.82), glass)
    for side in (-1.0, 1.0):
        for step in range(9):
            at = (0.48 - 0.11 * step, radius * 0.36, side * radius * 0.9)
            model.ellipsoid(ROOT, at, (0.024, 0.026, radius * 0.1), glass)
    model.point("nose", ROOT, (nose, 0, 0), 0.06)
    model.point("cockpit", ROOT, (0.76, radius * 0.95, 0), 0.07)
    model.point("tail_end", ROOT, (-1.0 - radius * 0.2, radius * 0.55, 0), 0.06)


def _aeroplane_wing(model: Model, draws: Draws, paint: Look, radius: float, name: str, side: float) -> None:
    span, chord = 0.42, 0.2
    sweep = -draws.uniform(0.5, 1.9)
    # The block's y axis points outwards, along the wing.
    wing = ROOT.joint((0.12, -radius * 0.45, side * radius * 0.5), x=side * 90 - side * draws.uniform(2, 9))
    model.block(wing, (0, span, 0), (chord, span, 0.022), paint, top=(0.32, 0.4), shift=(sweep, 0))
    model.point(f"{name}_wing_tip", wing, (chord * sweep, span * 1.98, 0), 0.05)
    model.point(f"{name}_wing_root", wing, (chord * (0.8 + sweep * 0.1), span * 0.2 + radius * 0.45, 0), 0.06)
    engine = wing.joint((chord * (0.75 + sweep * 0.4), span * 0.75, side * 0.085), x=-side * 90)
    cowl = Look(draws.pick(((0.55, 0.57, 0.6), (0.3, 0.32, 0.36))), gloss=0.3)
    model.limb(engine, (-0.12, 0, 0), (0.1, 0, 0), (0.042, 0.06), cowl)
    model.ellipsoid(engine, (0.135, 0, 0), (0.03, 0.05, 0.05), Look(DARK))
    model.point(f"{name}_engine", engine, (0.16, 0, 0), 0.05)


def _aeroplane_tail(model: Model, draws: Draws, fin: Look, plane: Look, radius: float) -> None:
    height = draws.uniform(0.15, 0.21)
    model.block(ROOT, (-0.82, radius * 0.5 + height, 0), (0.17, height, 0.02), fin, (0.5, 0.5), (-0.9, 0))
    model.point("fin_top", ROOT, (-0.82 - 0.17 * 0.9, radius * 0.5 + height * 1.97, 0), 0.05)
    span = draws.uniform(0.15, 0.19)
    for name, side in SIDES:
        flap = ROOT.joint((-0.86, radius * 0.5, 0), x=side * 84)
        model.block(flap, (0, span, 0), (0.11, span, 0.016), plane, (0.45, 0.5), (-0.8, 0))
        model.point(f"{name}_tailplane_tip", flap, (-0.11 * 0.8, span * 1.97, 0), 0.05)


def _aeroplane_propeller(model: Model, draws: Draws, radius: float) -> None:
    if not draws.chance(0.25):
        return
    hub = ROOT.joint((0.97, 0, 0), x=draws.uniform(0, 180))
    for blade in (0, 60, 120):
        model.ellipsoid(hub.joint((0, 0, 0), x=blade), (0, 0, 0), (0.012, radius * 2, 0.03), Look((0.2, 0.2, 0.22)))


def build_chair(draws: Draws) -> Model:
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
    _chair_legs(model, draws, wood, half, width, height)
    _chair_back(model, draws, wood, cushion, ROOT.joint((-half + 0.03, height, 0), z=draws.uniform(2, 16)), width)
    if draws.chance(0.35):
        _chair_arms(model, wood, half, width, height)
    return model


def _chair_legs(model: Model, draws: Draws, wood: Look, half: float, width: float, height: float) -> None:
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


def _chair_back(model: Model, draws: Draws, wood: Look, cushion: Look, back: Frame, width: float) -> None:
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


def _chair_arms(model: Model, wood: Look, half: float, width: float, height: float) -> None:
    for side in (-1.0, 1.0):
        z, level = side * (width - 0.01), height + 0.24
        model.limb(ROOT, (half * 0.7, height, z), (half * 0.7, level, z), (0.022, 0.022), wood)
        model.block(ROOT, (0.0, level, z), (half * 0.95, 0.018, 0.035), wood)
