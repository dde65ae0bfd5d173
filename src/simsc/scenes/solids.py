"""Rotations and the camera of the scenes, and the two building blocks of every object: solids and tapered limbs.

An object's own axes: x forward, y up, z to its right; its left is at negative z. In the picture x goes right,
y down and z towards the viewer, all in pixels; the projection is orthographic.

Sums are written out element by element: a linear-algebra library may round differently on another machine.

Each block can say how near its surface comes to the viewer at a place of the picture (``depth``), which way the
surface faces there (``normals``), and which part of the picture it can touch (``extent``). Positions are in pixels
relative to the block's own centre; pixel centres are at integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from simsc.scenes.looks import Look

Vector = tuple[float, float, float] | np.ndarray
NOWHERE = np.float32(-np.inf)
_FLAT = 1e-7  # planes this steep are seen edge-on
_TINY = np.float32(1e-12)
_CLOSE = np.float32(1e-2)
Triple = tuple[np.ndarray, ...]


def rotation(*, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    """``(3, 3)`` rotation by ``z``, then ``y``, then ``x`` degrees about the axes of those names.

    >>> (rotation(z=90) @ [1, 0, 0]).tolist()
    [0.0, 1.0, 0.0]
    """
    (cx, sx), (cy, sy), (cz, sz) = (_cos_sin(angle) for angle in (x, y, z))
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return product(about_x, product(about_y, about_z))


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Matrix product ``(3, 3) x (3, 3)``."""
    result: np.ndarray = a[:, 0:1] * b[0] + a[:, 1:2] * b[1] + a[:, 2:3] * b[2]
    return result


def transform(matrix: np.ndarray, points: Vector) -> np.ndarray:
    """``matrix`` applied to points ``(..., 3)``."""
    points = np.asarray(points, dtype=matrix.dtype)
    result: np.ndarray = (
        points[..., 0:1] * matrix[:, 0] + points[..., 1:2] * matrix[:, 1] + points[..., 2:3] * matrix[:, 2]
    )
    return result


@dataclass(frozen=True)
class Frame:
    """Axes of a part: ``rotation`` (3, 3) and ``origin`` (3,) in the object's units."""

    rotation: np.ndarray
    origin: np.ndarray

    def place(self, points: Vector) -> np.ndarray:
        """Points ``(..., 3)`` of this frame in the object's axes."""
        result: np.ndarray = transform(self.rotation, points) + self.origin
        return result

    def joint(self, at: Vector, *, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Frame:
        """A frame that hangs on this one at ``at``, turned by degrees about its axes."""
        turned = product(self.rotation, rotation(x=x, y=y, z=z)) if x or y or z else self.rotation
        return Frame(turned, self.place(at))


ROOT = Frame(np.eye(3), np.zeros(3))


@dataclass(frozen=True)
class Camera:
    """Orthographic view: ``pixel = scale * view @ point + offset``; the image's y axis points down.

    Attributes:
        view: ``(3, 3)`` rotation, its second row negated.
        scale: pixels per object unit.
        offset: ``(3,)`` picture position of the object's origin.
    """

    view: np.ndarray
    scale: float
    offset: np.ndarray

    @classmethod
    def looking(cls, yaw: float, pitch: float, roll: float = 0.0) -> Camera:
        """Yaw 0 shows the right side, -90 the front; a positive pitch looks down on the object."""
        turned = product(rotation(z=roll), product(rotation(x=pitch), rotation(y=yaw)))
        return cls(turned * np.array([[1.0], [-1.0], [1.0]]), 1.0, np.zeros(3))

    def project(self, points: Vector) -> np.ndarray:
        """Object points ``(..., 3)`` in the picture: x, y, and z towards the viewer."""
        result: np.ndarray = transform(self.view, points) * self.scale + self.offset
        return result


def _cos_sin(degrees: float) -> tuple[float, float]:
    # Rounded, since the last bit of a cosine differs between mathematical libraries.
    return round(math.cos(math.radians(degrees)), 10), round(math.sin(math.radians(degrees)), 10)


class Block(Protocol):
    """A part placed in the picture."""

    @property
    def centre(self) -> np.ndarray:
        """``(3,)`` x, y, z in the picture."""
        ...

    @property
    def to_part(self) -> np.ndarray:
        """``(3, 3)`` takes offsets from the centre to the part's own axes in object units."""
        ...

    @property
    def look(self) -> Look:
        """The surface."""
        ...

    def depth(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Nearest z at offsets x, y (broadcast), ``NOWHERE`` beside the block."""
        ...

    def normals(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Triple:
        """Outward directions, not normalised, at surface offsets: x, y, z ``(n,)`` each."""
        ...

    def extent(self) -> np.ndarray:
        """x0, y0, x1, y1 in the picture around the block."""
        ...


@dataclass(frozen=True)
class Solid:
    """A quadric cut by planes: ellipsoid, cylinder, dome, or, without the quadric, a polyhedron.

    Attributes:
        quadric: ``(3, 3)`` with ``p Q p <= 1`` inside, or None.
        planes: ``(m, 4)`` rows a, b, c, d with ``a x + b y + c z <= d`` inside.
        reach: ``(4,)`` x0, y0, x1, y1 relative to the centre.
    """

    centre: np.ndarray
    to_part: np.ndarray
    look: Look
    quadric: np.ndarray | None
    planes: np.ndarray
    reach: np.ndarray

    def depth(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """See :class:`Block`."""
        near, far, inside = _between_planes(self.planes, x, y)
        if self.quadric is not None:
            q = self.quadric.astype(x.dtype)
            middle = (x * q[0, 2] + y * q[1, 2]) / q[2, 2]
            rest = ((x * x * q[0, 0] - 1) + y * y * q[1, 1] + (x * (2 * q[0, 1])) * y) / q[2, 2]
            root = middle * middle - rest
            inside = inside & (root >= 0)
            root = np.sqrt(np.maximum(root, 0))
            near, far = np.minimum(near, root - middle), np.maximum(far, -root - middle)
        return np.where(inside & (near >= far), near, NOWHERE)

    def normals(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Triple:
        """See :class:`Block`: the normal of the face, curved or flat, that lies nearest to each offset."""
        best = np.full_like(x, np.inf)
        result: Triple = (x, y, z)
        if self.quadric is not None:
            a, b, c = self.quadric.astype(x.dtype)
            result = tuple(x * row[0] + y * row[1] + z * row[2] for row in (a, b, c))
            if len(self.planes):
                best = np.abs(1 - dot(result, (x, y, z))) / (2 * np.sqrt(dot(result, result)) + _TINY)
        for plane in self.planes.astype(x.dtype):
            length = np.sqrt(dot(plane, plane))
            slack = np.abs(plane[3] - dot(plane, (x, y, z))) / length
            nearer = slack < best
            best = np.where(nearer, slack, best)
            result = tuple(np.where(nearer, plane[i] / length, result[i]) for i in range(3))
        return result

    def extent(self) -> np.ndarray:
        """See :class:`Block`."""
        result: np.ndarray = self.reach + np.concatenate([self.centre[:2], self.centre[:2]])
        return result


@dataclass(frozen=True)
class Limb:
    """A round bar between two balls of different radius; offsets count from the first ball's centre.

    Attributes:
        along: ``(3,)`` from the first to the second ball.
        radii: of the two balls, in pixels.
    """

    centre: np.ndarray
    to_part: np.ndarray
    look: Look
    along: np.ndarray
    radii: tuple[float, float]

    def depth(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """See :class:`Block`."""
        dx, dy, axis_z, radius = self._nearest(x, y)
        bar = _ball(dx, dy, radius) + axis_z
        # Seen end-on, the ball at the near end covers what the bar alone gets wrong.
        if self.along[2] > 0:
            ax, ay, az = self.along.astype(x.dtype)
            near_end = _ball(x - ax, y - ay, x.dtype.type(self.radii[1])) + az
        else:
            near_end = _ball(x, y, x.dtype.type(self.radii[0]))
        result: np.ndarray = np.maximum(bar, near_end)
        return result

    def normals(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Triple:
        """See :class:`Block`."""
        dx, dy, axis_z, _ = self._nearest(x, y)
        bar = (dx, dy, np.maximum(z - axis_z, 0))
        near_end = self.along.astype(x.dtype) if self.along[2] > 0 else np.zeros(3, dtype=x.dtype)
        radius = x.dtype.type(self.radii[1] if self.along[2] > 0 else self.radii[0])
        ball = (x - near_end[0], y - near_end[1], z - near_end[2])
        on_ball = np.abs(dot(ball, ball) - radius * radius) < _CLOSE * radius * radius
        return tuple(np.where(on_ball, round_, straight) for round_, straight in zip(ball, bar, strict=True))

    def extent(self) -> np.ndarray:
        """See :class:`Block`."""
        ends = self.centre[:2] + np.stack([np.zeros(2), self.along[:2]])
        radii = np.array(self.radii)[:, None]
        return np.concatenate([(ends - radii).min(axis=0), (ends + radii).max(axis=0)])

    def _nearest(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        ax, ay, az = self.along.astype(x.dtype)
        share = np.clip((x * ax + y * ay) / (ax * ax + ay * ay + x.dtype.type(1e-6)), 0, 1)
        radius = share * x.dtype.type(self.radii[1] - self.radii[0]) + x.dtype.type(self.radii[0])
        return x - share * ax, y - share * ay, share * az, radius


def _between_planes(planes: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    near = np.asarray(np.inf, dtype=x.dtype)
    far, inside = -near, np.asarray(True)
    for a, b, c, d in planes.astype(x.dtype):
        room = (d - x * a) - y * b
        if c > _FLAT:
            near = np.minimum(near, room / c)
        elif c < -_FLAT:
            far = np.maximum(far, room / c)
        else:
            inside = inside & (room >= 0)
    return near, far, inside


def _ball(dx: np.ndarray, dy: np.ndarray, radius: np.ndarray) -> np.ndarray:
    square = radius * radius - dx * dx - dy * dy
    return np.where(square >= 0, np.sqrt(np.maximum(square, 0)), NOWHERE)


def dot(a: Triple | np.ndarray, b: Triple | np.ndarray) -> np.ndarray:
    """Scalar product over the first three entries, each of which may be an array."""
    result: np.ndarray = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return result
