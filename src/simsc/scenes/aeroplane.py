"""Aeroplanes: airliners with jet engines, and light aircraft with a propeller."""

from __future__ import annotations

from simsc.scenes.draws import Draws
from simsc.scenes.frames import ROOT
from simsc.scenes.looks import DARK, WHITE, Look
from simsc.scenes.model import Model
from simsc.scenes.quadruped import SIDES

POINTS = (
    "nose", "cockpit", "left_wing_tip", "right_wing_tip", "left_wing_root", "right_wing_root",
    "left_engine", "right_engine", "fin_top", "tail_end", "left_tailplane_tip", "right_tailplane_tip",
)  # fmt: skip


def build(draws: Draws) -> Model:
    """An aeroplane in flight."""
    model = Model(airborne=True)
    base = draws.pick((WHITE, (0.8, 0.82, 0.85), draws.colour(saturation=(0.1, 0.5), value=(0.8, 1.0))))
    accent = draws.colour(saturation=(0.65, 1.0), value=(0.45, 0.9))
    radius = draws.uniform(0.1, 0.145)
    _fuselage(model, draws, Look(base, accent, "belly", 1, draws.uniform(0.02, 0.06), 0.25), radius)
    _tail(model, draws, Look(accent, gloss=0.2), Look(base, gloss=0.2), radius)
    for name, side in SIDES:
        _wing(model, draws, Look(base, gloss=0.2), radius, name, side)
    _propeller(model, draws, radius)
    return model


def _fuselage(model: Model, draws: Draws, paint: Look, radius: float) -> None:
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


def _wing(model: Model, draws: Draws, paint: Look, radius: float, name: str, side: float) -> None:
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


def _tail(model: Model, draws: Draws, fin: Look, plane: Look, radius: float) -> None:
    height = draws.uniform(0.15, 0.21)
    model.block(ROOT, (-0.82, radius * 0.5 + height, 0), (0.17, height, 0.02), fin, (0.5, 0.5), (-0.9, 0))
    model.point("fin_top", ROOT, (-0.82 - 0.17 * 0.9, radius * 0.5 + height * 1.97, 0), 0.05)
    span = draws.uniform(0.15, 0.19)
    for name, side in SIDES:
        flap = ROOT.joint((-0.86, radius * 0.5, 0), x=side * 84)
        model.block(flap, (0, span, 0), (0.11, span, 0.016), plane, (0.45, 0.5), (-0.8, 0))
        model.point(f"{name}_tailplane_tip", flap, (-0.11 * 0.8, span * 1.97, 0), 0.05)


def _propeller(model: Model, draws: Draws, radius: float) -> None:
    if not draws.chance(0.25):
        return
    hub = ROOT.joint((0.97, 0, 0), x=draws.uniform(0, 180))
    for blade in (0, 60, 120):
        model.ellipsoid(hub.joint((0, 0, 0), x=blade), (0, 0, 0), (0.012, radius * 2, 0.03), Look((0.2, 0.2, 0.22)))
