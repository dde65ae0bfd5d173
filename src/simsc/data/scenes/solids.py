"""The two building blocks of every object, placed in the picture: convex solids and tapered limbs.

Each can say how near its surface comes to the viewer at a place of the picture (``depth``), which way the
surface faces there (``normals``), and which part of the picture it can touch (``extent``). Positions are in pixels
relative to the block's own centre; pixel centres are at integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from simsc.data.scenes.frames import transform
from simsc.data.scenes.looks import Look

NOWHERE = np.float32(-1e9)
_FLAT = 1e-7


class Block(Protocol):
    """A part placed in the picture.

    Attributes:
        centre: ``(3,)`` x, y, z in the picture.
        to_part: ``(3, 3)`` takes offsets from the centre to the part's own axes in object units.
        look: the surface.
    """

    centre: np.ndarray
    to_part: np.ndarray
    look: Look

    def depth(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Nearest z at offsets x, y (broadcast), ``NOWHERE`` beside the block."""
        ...

    def normals(self, offsets: np.ndarray) -> np.ndarray:
        """Outward directions ``(n, 3)``, not normalised, at surface offsets ``(n, 3)``."""
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

    def normals(self, offsets: np.ndarray) -> np.ndarray:
        """See :class:`Block`: the normal of the face, curved or flat, that lies nearest to each offset."""
        best = np.full(len(offsets), np.inf, dtype=offsets.dtype)
        result = np.zeros_like(offsets)
        if self.quadric is not None:
            result = transform(self.quadric.astype(offsets.dtype), offsets)
            best = np.abs(1 - _dot(result, offsets)) / (2 * np.sqrt(_dot(result, result)) + 1e-12)
        for plane in self.planes.astype(offsets.dtype):
            slack = np.abs(plane[3] - _dot(offsets, plane[:3])) / np.sqrt(_dot(plane[:3], plane[:3]))
            nearer = slack < best
            best = np.where(nearer, slack, best)
            result = np.where(nearer[:, None], plane[:3] * self._size(), result)
        return result

    def extent(self) -> np.ndarray:
        """See :class:`Block`."""
        return self.reach + np.concatenate([self.centre[:2], self.centre[:2]])

    def _size(self) -> np.float32:
        return np.float32(np.abs(self.reach).max())


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
            return np.maximum(bar, _ball(x - ax, y - ay, x.dtype.type(self.radii[1])) + az)
        return np.maximum(bar, _ball(x, y, x.dtype.type(self.radii[0])))

    def normals(self, offsets: np.ndarray) -> np.ndarray:
        """See :class:`Block`."""
        x, y, z = offsets[:, 0], offsets[:, 1], offsets[:, 2]
        dx, dy, axis_z, _ = self._nearest(x, y)
        bar = np.stack([dx, dy, np.maximum(z - axis_z, 0)], axis=1)
        end = self.along.astype(offsets.dtype) if self.along[2] > 0 else np.zeros(3, dtype=offsets.dtype)
        radius = self.radii[1] if self.along[2] > 0 else self.radii[0]
        ball = offsets - end
        on_ball = np.abs(_dot(ball, ball) - radius * radius) < 1e-2 * radius * radius
        return np.where(on_ball[:, None], ball, bar)

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


def _between_planes(
    planes: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]
