"""How an image of any size becomes the network's input, and how points travel there and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import Convention, Points, Size, resize_points
from simsc.images import resize_image

PADDING = 0.5  # grey, close to the mean colour of photographs


@dataclass(frozen=True)
class Frame:
    """The network's view of one image: resized to ``resized``, placed at ``offset`` on a ``canvas``.

    Attributes:
        original: ``(H, W)`` of the image as shown.
        resized: ``(H, W)`` after resizing.
        canvas: ``(H, W)`` of the network's input.
        offset: ``(x, y)`` of the resized image's upper left pixel on the canvas.
        convention: see :mod:`simsc.coordinates`.
    """

    original: Size
    resized: Size
    canvas: Size
    offset: tuple[int, int] = (0, 0)
    convention: Convention = "center"

    def to_network(self, points: Points) -> Points:
        """Points ``(..., 2)`` of the original image in pixels of the network's input.

        >>> frame = square_frame((100, 200), 256)
        >>> frame.to_original(frame.to_network(np.array([[3.0, 7.5]])))
        array([[3. , 7.5]])
        """
        moved = resize_points(points, self.original, self.resized, self.convention)
        moved[..., 0] += self.offset[0]
        moved[..., 1] += self.offset[1]
        return moved

    def to_original(self, points: Points) -> Points:
        """Points ``(..., 2)`` of the network's input in pixels of the original image."""
        back = points - _like_offset(points, self.offset)
        return resize_points(back, self.resized, self.original, self.convention)

    def to_input(self, pixels: np.ndarray) -> Tensor:
        """The network's input ``(3, H, W)`` in [0, 1] of an image ``(H, W, 3)`` uint8."""
        image = resize_image(pixels, self.resized)
        if self.canvas == self.resized:
            return image
        canvas = torch.full((3, *self.canvas), PADDING)
        left, top = self.offset
        canvas[:, top : top + self.resized[0], left : left + self.resized[1]] = image
        return canvas


def square_frame(original: Size, side: int, convention: Convention = "center") -> Frame:
    """The whole image resized to ``side x side``, aspect not kept: the training frame."""
    return Frame(original, (side, side), (side, side), convention=convention)


def aspect_frame(original: Size, long_side: int | None, multiple: int = 1, convention: Convention = "center") -> Frame:
    """Aspect kept as closely as sides that are multiples of ``multiple`` allow; ``None`` keeps the size."""
    scale = 1.0 if long_side is None else long_side / max(original)
    height, width = (max(round(side * scale / multiple), 1) * multiple for side in original)
    return Frame(original, (height, width), (height, width), convention=convention)


def padded_frame(original: Size, side: int, convention: Convention = "center") -> Frame:
    """Aspect kept, longer side resized to ``side``, centred on a square canvas."""
    scale = side / max(original)
    height, width = (max(round(length * scale), 1) for length in original)
    offset = ((side - width) // 2, (side - height) // 2)
    return Frame(original, (height, width), (side, side), offset, convention)


def _like_offset(points: Points, offset: tuple[int, int]) -> Points:
    if isinstance(points, Tensor):
        return points.new_tensor(offset)
    return np.asarray(offset, dtype=points.dtype)
