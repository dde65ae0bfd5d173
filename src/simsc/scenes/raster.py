"""Drawing placed parts with a depth buffer at twice the resolution, shaded and averaged down."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

import numpy as np

from simsc.coordinates import Size
from simsc.scenes.solids import NOWHERE, Block, dot, transform

SAMPLES = 2  # per pixel and axis
_LIGHT = np.array([-0.45, -0.7, 0.56], dtype=np.float32)
_AMBIENT, _SKY, _SUN = np.float32(0.5), np.float32(0.1), np.float32(0.56)
_HALFWAY = np.array([-0.255, -0.396, 0.882], dtype=np.float32)  # between the light and the viewer
_RIGHT, _DOWN = (-0.25, 0.25, -0.25, 0.25), (-0.25, -0.25, 0.25, 0.25)  # the samples of a pixel, row by row
Buffers = tuple[np.ndarray, np.ndarray]


def rasterise(blocks: Sequence[Block], size: Size) -> Buffers:
    """Which block is nearest at each sample.

    Returns:
        depth ``(2H, 2W)`` float32, and the block's index ``(2H, 2W)`` int16, -1 where there is none.
    """
    shape = (size[0] * SAMPLES, size[1] * SAMPLES)
    depth, index = np.full(shape, NOWHERE, dtype=np.float32), np.full(shape, -1, dtype=np.int16)
    for number, block in enumerate(blocks):
        window = _window(block, size)
        x, y = _offsets(block, window)
        if x.size == 0 or y.size == 0:
            continue
        z = block.depth(x[None, :], y[:, None]) + np.float32(block.centre[2])
        nearer = z > depth[window]
        np.copyto(depth[window], z, where=nearer)
        np.copyto(index[window], np.int16(number), where=nearer)
    return depth, index


def shade(blocks: Sequence[Block], buffers: Buffers, background: np.ndarray) -> np.ndarray:
    """The picture ``(H, W, 3)`` uint8: lit blocks over the background ``(H, W, 3)`` uint8.

    A pixel within one plain block is lit once, at its centre; edges and textures are lit at every sample.
    """
    depth, index = (_by_pixel(buffer) for buffer in buffers)
    textured = np.array([block.look.pattern != "plain" for block in blocks] + [False])
    same = (index[0] == index[1]) & (index[0] == index[2]) & (index[0] == index[3])
    once = np.flatnonzero(same & (index[0] >= 0) & ~textured[index[0]])
    often = np.flatnonzero(~same | textured[index[0]])
    middle = ((depth[0][once] + depth[1][once]) + (depth[2][once] + depth[3][once])) * np.float32(0.25)
    number = np.concatenate([index[0][once], *(sample[often] for sample in index)])
    z = np.concatenate([middle, *(sample[often] for sample in depth)])
    x, y = _positions(once, often, background.shape[1])

    picture = background.reshape(-1, 3).copy()
    lit = _colours(blocks, number, x, y, z, picture[np.concatenate([once, *[often] * len(index)])])
    picture[once] = lit[: len(once)]
    first, second, third, fourth = lit[len(once) :].reshape(len(index), -1, 3).astype(np.uint16)
    picture[often] = (first + second + third + fourth + 2) >> 2
    return picture.reshape(background.shape)


def cover(index: np.ndarray, first: int, last: int) -> np.ndarray:
    """Pixels ``(H, W)`` bool at least half of whose samples show a block with ``first <= index < last``."""
    shown = ((index >= first) & (index < last)).astype(np.uint8)
    count = shown[0::2, 0::2] + shown[0::2, 1::2] + shown[1::2, 0::2] + shown[1::2, 1::2]
    return count >= 2


def depth_at(blocks: Sequence[Block], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Depth of the nearest block at picture positions ``(n,)``, without drawing."""
    best = np.full(x.shape, float(NOWHERE))
    for block in blocks:
        x0, y0, x1, y1 = block.extent()
        if ((x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)).any():
            best = np.maximum(best, block.depth(x - block.centre[0], y - block.centre[1]) + block.centre[2])
    return best


def _positions(once: np.ndarray, often: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.divmod(once.astype(np.int32), np.int32(width))
    more_rows, more_columns = np.divmod(often.astype(np.int32), np.int32(width))
    x = np.concatenate([columns, *(more_columns + step for step in _RIGHT)])
    return x, np.concatenate([rows, *(more_rows + step for step in _DOWN)])


def _colours(
    blocks: Sequence[Block], index: np.ndarray, x: np.ndarray, y: np.ndarray, z: np.ndarray, base: np.ndarray
) -> np.ndarray:
    order = np.argsort(index, kind="stable")  # brings the samples of each block together
    bounds = np.searchsorted(index[order], np.arange(len(blocks) + 1))
    order = order[bounds[0] :]
    x, y, z = x[order], y[order], z[order]
    lit = np.empty((3, len(order)), dtype=np.uint8)
    for block, first, last in zip(blocks, bounds[:-1] - bounds[0], bounds[1:] - bounds[0], strict=True):
        if first < last:
            offsets = (places[first:last] - centre for places, centre in zip((x, y, z), block.centre, strict=True))
            lit[:, first:last] = _lit(block, *(offset.astype(np.float32) for offset in offsets))
    base[order] = lit.T
    return base


def _by_pixel(buffer: np.ndarray) -> list[np.ndarray]:
    return [buffer[row::SAMPLES, column::SAMPLES].ravel() for row in range(SAMPLES) for column in range(SAMPLES)]


def _lit(block: Block, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    normal = block.normals(x, y, z)
    shrink = 1 / (np.sqrt(dot(normal, normal)) + np.float32(1e-12))
    normal = tuple(part * shrink for part in normal)
    strength = _AMBIENT - _SKY * normal[1] + _SUN * np.maximum(dot(normal, _LIGHT), 0)
    # Surfaces seen at a grazing angle darken, which draws an outline around every part.
    strength *= np.clip(normal[2] * np.float32(1.6) + np.float32(0.55), np.float32(0.55), 1)
    if block.look.pattern == "plain":
        colours = np.asarray(block.look.colour, dtype=np.float32)[:, None] * strength
    else:
        position = transform(block.to_part.astype(np.float32), np.stack([x, y, z], axis=1))
        colours = block.look.albedo(position).T * strength
    if block.look.gloss > 0:
        shine = np.maximum(dot(normal, _HALFWAY), 0)
        for _ in range(5):
            shine = shine * shine
        colours += np.float32(block.look.gloss) * shine
    result: np.ndarray = (np.minimum(colours, 1) * np.float32(255) + np.float32(0.5)).astype(np.uint8)
    return result


def _window(block: Block, size: Size) -> tuple[slice, slice]:
    # Sample i lies at pixel (i + 0.5) / SAMPLES - 0.5, so that pixel centres are at integers.
    x0, y0, x1, y1 = ((edge + 0.5) * SAMPLES - 0.5 for edge in block.extent())
    rows = slice(max(0, floor(y0)), max(0, min(size[0] * SAMPLES, ceil(y1) + 1)))
    return rows, slice(max(0, floor(x0)), max(0, min(size[1] * SAMPLES, ceil(x1) + 1)))


def _offsets(block: Block, window: tuple[slice, slice]) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = (np.arange(part.start, part.stop) for part in window)
    return _place(columns, block.centre[0]), _place(rows, block.centre[1])


def _place(samples: np.ndarray, centre: float) -> np.ndarray:
    return ((samples + 0.5) / SAMPLES - (0.5 + centre)).astype(np.float32)
