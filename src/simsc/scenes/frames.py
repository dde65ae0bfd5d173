"""Rotations, frames and the camera of the scenes.

An object's own axes: x forward, y up, z to its right; its left is at negative z. In the picture x goes right,
y down and z towards the viewer, all in pixels; the projection is orthographic.

Sums are written out element by element: a linear-algebra library may round differently on another machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Vector = tuple[float, float, float] | np.ndarray


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
    return a[:, 0:1] * b[0] + a[:, 1:2] * b[1] + a[:, 2:3] * b[2]


def transform(matrix: np.ndarray, points: Vector) -> np.ndarray:
    """``matrix`` applied to points ``(..., 3)``."""
    points = np.asarray(points, dtype=matrix.dtype)
    return points[..., 0:1] * matrix[:, 0] + points[..., 1:2] * matrix[:, 1] + points[..., 2:3] * matrix[:, 2]


@dataclass(frozen=True)
class Frame:
    """Axes of a part: ``rotation`` (3, 3) and ``origin`` (3,) in the object's units."""

    rotation: np.ndarray
    origin: np.ndarray

    def place(self, points: Vector) -> np.ndarray:
        """Points ``(..., 3)`` of this frame in the object's axes."""
        return transform(self.rotation, points) + self.origin

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
        return transform(self.view, points) * self.scale + self.offset


def _cos_sin(degrees: float) -> tuple[float, float]:
    # Rounded, since the last bit of a cosine differs between mathematical libraries.
    return round(math.cos(math.radians(degrees)), 10), round(math.sin(math.radians(degrees)), 10)
