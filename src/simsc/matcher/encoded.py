"""Images on their way into the network, and what it says about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Union

import numpy as np
import torch
from torch import Tensor

from simsc.coordinates import Convention, Size
from simsc.errors import ConfigError
from simsc.frames import Frame, aspect_frame, square_frame
from simsc.matching.features import Features

if TYPE_CHECKING:
    from PIL import Image

ImageLike = Union[str, Path, bytes, "Image.Image", np.ndarray, Tensor]
"""Whatever :func:`simsc.images.read_image` reads."""

Encoder = Callable[[Tensor], Features]
"""From inputs ``(B, 3, H, W)`` in [0, 1] to features."""

MAX_CELLS = 128 * 128
"""Larger inputs are refused: the scores of one image's cells over another's would not fit in memory."""


@dataclass(frozen=True)
class EncodedImage:
    """An image that the network has seen; give it to a matcher in the place of the image itself.

    Attributes:
        features: of the image, a batch of 1.
        frame: how the image entered the network.
        flipped: features of the mirrored image, for the flipped ensemble.
    """

    features: Features
    frame: Frame
    flipped: Features | None = None

    @property
    def size(self) -> Size:
        """``(height, width)`` of the image as shown."""
        return self.frame.original


@dataclass(frozen=True)
class View:
    """How images enter the network.

    Attributes:
        side: side of the square or, with ``keep_aspect``, length of the longer side; rounded to the stride.
        stride: image pixels per cell; sides are multiples of it, so that cells tile the image exactly.
        keep_aspect: keep the image's aspect ratio instead of resizing to a square.
        convention: of the model, see :mod:`simsc.coordinates`.

    >>> View(256, 16).frame((600, 400)).canvas, View(256, 16, keep_aspect=True).frame((600, 400)).canvas
    ((256, 256), (256, 176))
    """

    side: int
    stride: int
    keep_aspect: bool = False
    convention: Convention = "center"

    def __post_init__(self) -> None:
        largest = int(MAX_CELLS**0.5) * self.stride
        if not self.stride <= self.side <= largest:
            raise ConfigError(f"size = {self.side} is not allowed: {self.stride} (one cell) to {largest} pixels")

    def frame(self, original: Size) -> Frame:
        """The network's view of an image of that size."""
        if self.keep_aspect:
            return aspect_frame(original, self.side, self.stride, self.convention)
        return square_frame(original, round(self.side / self.stride) * self.stride, self.convention)


def encode_images(
    encoder: Encoder, images: Sequence[np.ndarray], view: View, device: torch.device, *, flip: bool = False
) -> list[EncodedImage]:
    """Encode ``(H, W, 3)`` uint8 images; those of equal input size, and their mirror images, in one batch."""
    frames = [view.frame((image.shape[0], image.shape[1])) for image in images]
    encoded: dict[int, EncodedImage] = {}
    for canvas in dict.fromkeys(frame.canvas for frame in frames):
        members = [index for index, frame in enumerate(frames) if frame.canvas == canvas]
        inputs = torch.stack([frames[index].to_input(images[index]) for index in members]).to(device)
        features = encoder(torch.cat([inputs, inputs.flip(-1)]) if flip else inputs)
        for place, index in enumerate(members):
            mirrored = _one(features, len(members) + place) if flip else None
            encoded[index] = EncodedImage(_one(features, place), frames[index], mirrored)
    return [encoded[index] for index in range(len(images))]


def _one(features: Features, index: int) -> Features:
    return features.select(slice(index, index + 1))
