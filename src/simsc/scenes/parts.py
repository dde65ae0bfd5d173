"""Building an object from parts: ellipsoids, cylinders, blocks and limbs, with named key-points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product as combinations

import numpy as np

from simsc.scenes.looks import Look
from simsc.scenes.solids import Block, Camera, Frame, Limb, Solid, Vector, product, transform

SIDES = (("left", -1.0), ("right", 1.0))  # names and directions along z, see :mod:`simsc.scenes.solids`
_BARREL = 1e-4  # a cylinder is an ellipsoid so long that its ends do not bulge


@dataclass(frozen=True)
class Part:
    """A solid in object units: a unit body in the frame's axes, stretched by ``radii``.

    Attributes:
        curve: 1 for an ellipsoid, nearly 0 for a cylinder along the frame's z, None for a polyhedron.
        planes: ``(m, 4)`` cuts in units of the radii.
        corners: ``(k, 3)`` of a polyhedron, in units of the radii.
    """

    frame: Frame
    radii: np.ndarray
    look: Look
    curve: float | None
    planes: np.ndarray
    corners: np.ndarray | None = None

    def seen(self, camera: Camera) -> Solid:
        """This part in the picture."""
        turned = product(camera.view, self.frame.rotation)
        stretched = turned * (self.radii * camera.scale)
        to_part = turned.T / camera.scale
        inverse = to_part / self.radii[:, None]
        planes = np.concatenate([transform(inverse.T, self.planes[:, :3]), self.planes[:, 3:]], axis=1)
        quadric = None
        if self.curve is not None:
            quadric = product(inverse.T, inverse * np.array([[1.0], [1.0], [self.curve]]))
        centre = camera.project(self.frame.origin)
        return Solid(centre, to_part, self.look, quadric, planes, self._reach(stretched))

    def _reach(self, stretched: np.ndarray) -> np.ndarray:
        if self.corners is not None:
            corners = transform(stretched, self.corners)[:, :2]
            return np.concatenate([corners.min(axis=0), corners.max(axis=0)])
        squares = stretched[:2] * stretched[:2]
        if self.curve == 1.0:
            half = np.sqrt(squares[:, 0] + squares[:, 1] + squares[:, 2])
        else:
            half = np.sqrt(squares[:, 0] + squares[:, 1]) + np.abs(stretched[:2, 2])
        return np.concatenate([-half, half])


@dataclass(frozen=True)
class Bar:
    """A limb in object units, from ``start`` to ``end``; its texture follows ``frame``."""

    frame: Frame
    start: np.ndarray
    end: np.ndarray
    radii: tuple[float, float]
    look: Look

    def seen(self, camera: Camera) -> Limb:
        """This limb in the picture."""
        start, end = camera.project(self.start), camera.project(self.end)
        to_part = product(camera.view, self.frame.rotation).T / camera.scale
        radii = (self.radii[0] * camera.scale, self.radii[1] * camera.scale)
        return Limb(start, to_part, self.look, end - start, radii)


@dataclass
class Model:
    """Parts and key-points of one object.

    Attributes:
        points: name -> position ``(3,)`` and how far it may lie under the surface that shows it.
        airborne: whether it flies; then it casts no shadow.
        company: parts that come with the object but belong neither to its mask nor to its box.
    """

    parts: list[Part | Bar] = field(default_factory=list)
    points: dict[str, tuple[np.ndarray, float]] = field(default_factory=dict)
    airborne: bool = False
    company: list[Part | Bar] = field(default_factory=list)

    def point(self, name: str, frame: Frame, at: Vector, under: float = 0.05) -> None:
        """Name the place ``at`` of a frame."""
        self.points[name] = (frame.place(at), under)

    def ellipsoid(
        self, frame: Frame, at: Vector, radii: Vector, look: Look, cuts: Sequence[Sequence[float]] = ()
    ) -> None:
        """An ellipsoid; each cut ``a, b, c, d`` keeps ``a x + b y + c z <= d`` in units of the radii."""
        planes = np.array(cuts, dtype=np.float64).reshape(-1, 4)
        self.parts.append(Part(frame.joint(at), np.array(radii, dtype=np.float64), look, 1.0, planes))

    def cylinder(self, frame: Frame, at: Vector, radii: Vector, look: Look) -> None:
        """A cylinder along the frame's z axis; ``radii[2]`` is half its length."""
        planes = np.array([[0, 0, 1, 1], [0, 0, -1, 1]], dtype=np.float64)
        self.parts.append(Part(frame.joint(at), np.array(radii, dtype=np.float64), look, _BARREL, planes))

    def block(
        self,
        frame: Frame,
        at: Vector,
        half: Vector,
        look: Look,
        top: tuple[float, float] = (1.0, 1.0),
        shift: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """A box of the given half sizes whose upper face is scaled by ``top`` and moved by ``shift`` in x, z."""
        planes, corners = _frustum(top, shift)
        self.parts.append(Part(frame.joint(at), np.array(half, dtype=np.float64), look, None, planes, corners))

    def limb(self, frame: Frame, start: Vector, end: Vector, radii: tuple[float, float], look: Look) -> None:
        """A tapered round bar."""
        self.parts.append(Bar(frame, frame.place(start), frame.place(end), radii, look))

    def seen(self, camera: Camera) -> list[Block]:
        """All parts in the picture."""
        return [part.seen(camera) for part in self.parts]


def _frustum(top: tuple[float, float], shift: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    planes = [[0.0, 1.0, 0.0, 1.0], [0.0, -1.0, 0.0, 1.0]]
    for axis, (share, move) in zip((0, 2), zip(top, shift, strict=True), strict=True):
        for side in (1.0, -1.0):
            # The face runs from `side` at y = -1 to `move + side * share` at y = 1.
            slope = (move + side * share - side) / 2
            normal = [0.0, -side * slope, 0.0, side * (side + slope)]
            normal[axis] = side
            planes.append(normal)
    corners = [(x, -1.0, z) for x, z in combinations((-1.0, 1.0), repeat=2)]
    corners += [(x * top[0] + shift[0], 1.0, z * top[1] + shift[1]) for x, z in combinations((-1.0, 1.0), repeat=2)]
    return np.array(planes), np.array(corners)
