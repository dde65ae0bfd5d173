"""Cars: saloons, hatchbacks, vans and pick-ups."""

from __future__ import annotations

from typing import NamedTuple

from simsc.scenes.draws import Draws
from simsc.scenes.frames import ROOT
from simsc.scenes.looks import DARK, WHITE, Look
from simsc.scenes.model import Model
from simsc.scenes.quadruped import SIDES

POINTS = (
    "front_left_wheel", "front_right_wheel", "rear_left_wheel", "rear_right_wheel",
    "left_headlight", "right_headlight", "left_taillight", "right_taillight",
    "front_left_roof", "front_right_roof", "rear_left_roof", "rear_right_roof",
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


def build(draws: Draws) -> Model:
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
    _cabin(model, draws, paint, belt, width)
    _lights(model, draws, belt, width)
    _wheels(model, draws, width, ride)
    _doors(model, paint, sill, belt, width)
    return model


def _cabin(model: Model, draws: Draws, paint: Look, belt: float, width: float) -> None:
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


def _lights(model: Model, draws: Draws, belt: float, width: float) -> None:
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


def _wheels(model: Model, draws: Draws, width: float, ride: float) -> None:
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


def _doors(model: Model, paint: Look, sill: float, belt: float, width: float) -> None:
    line = Look((paint.colour[0] * 0.45, paint.colour[1] * 0.45, paint.colour[2] * 0.45))
    middle, half = (sill + belt) / 2 + 0.03, (belt - sill) / 2 - 0.05
    for side in (-1.0, 1.0):
        for x in (0.33, -0.12):
            model.block(ROOT, (x, middle, side * width * 0.97), (0.006, half, 0.012), line)
        model.block(ROOT, (-0.03, belt - 0.08, side * width * 0.95), (0.045, 0.01, 0.014), line)
