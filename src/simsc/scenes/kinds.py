"""The categories: how each is built, from where it is seen, and in what surroundings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from simsc.scenes import aeroplane, bird, car, chair, face, quadruped
from simsc.scenes.draws import Draws
from simsc.scenes.model import Model

Range = tuple[float, float]


@dataclass(frozen=True)
class Kind:
    """How a category is built and photographed.

    Attributes:
        yaws, pitch, roll: ranges in degrees; see :meth:`Camera.looking`.
        settings: where it stands.
        fill: share of the picture that it takes.
        level: place between the picture's upper (0) and lower (1) edge.
        closeup: whether only the extent of its key-points has to fit.
    """

    module: ModuleType
    yaws: tuple[Range, ...]
    pitch: Range
    roll: float
    settings: tuple[str, ...] = ("outdoors",)
    fill: Range = (0.6, 0.94)
    level: Range = (0.2, 0.9)
    closeup: bool = False

    @property
    def build(self) -> Callable[[Draws], Model]:
        """The function that makes an instance."""
        return self.module.build


KINDS = {
    "quadruped": Kind(quadruped, ((-35, 25), (-205, -145), (-70, -35), (-145, -110)), (-2, 20), 3),
    "bird": Kind(bird, ((-45, 25), (-205, -135), (-75, -45), (-135, -105)), (-5, 25), 5),
    "car": Kind(car, ((-60, -8), (-172, -120), (-60, 20), (-200, -120), (130, 165)), (4, 20), 1.5),
    "aeroplane": Kind(aeroplane, ((-60, 35), (-215, -120)), (-28, 42), 15),
    "chair": Kind(chair, ((-75, -15), (-165, -105), (-80, 30)), (8, 30), 2, ("indoors",)),
    "face": Kind(
        face,
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
POINT_NAMES: dict[str, tuple[str, ...]] = {name: kind.module.POINTS for name, kind in KINDS.items()}
SPLITS = ("train", "val", "test")
