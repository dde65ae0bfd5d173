"""Every conversion between coordinate frames lives here.

Points are ``(x, y)``, 0-based, with pixel centres at integers. Sizes are ``(height, width)``. A feature map is
just a very small image: image pixel <-> resized image <-> feature cell is one formula,
:func:`resize_points`, in one of two conventions:

``center`` (default)
    A pixel is a square of side 1; images of different size share their *borders*:
    ``u = (x + 0.5) * w / W - 0.5``. This is what an antialiased image resize and a strided network do.
``corner``
    Images of different size share the *centres of their corner pixels*: ``u = x * (w - 1) / (W - 1)``,
    PyTorch's ``align_corners=True``. Several published figures were measured this way.
"""

from __future__ import annotations

from typing import Literal, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

from simsc.errors import ConfigError, unknown_name

Convention = Literal["center", "corner"]
Size = tuple[int, int]
Points = TypeVar("Points", Tensor, np.ndarray)


def resize_points(points: Points, old: Size, new: Size, convention: Convention = "center") -> Points:
    """Move points of an image of size ``old`` to the same places in that image resized to ``new``.

    Args:
        points: ``(..., 2)`` xy, tensor or array of floats.
        old: ``(height, width)`` the points refer to.
        new: ``(height, width)`` they shall refer to; an image, or a feature map in cells.
        convention: see the module's docstring.

    >>> resize_points(torch.tensor([[0.0, 0.0], [255.0, 255.0]]), (256, 256), (16, 16))
    tensor([[-0.4688, -0.4688],
            [15.4688, 15.4688]])
    >>> resize_points(torch.tensor([[0.0, 0.0], [255.0, 255.0]]), (256, 256), (16, 16), "corner")
    tensor([[ 0.,  0.],
            [15., 15.]])
    """
    old_wh = _like(points, (old[1], old[0]))
    new_wh = _like(points, (new[1], new[0]))
    resized: Points
    if check_convention(convention) == "center":
        resized = (points + 0.5) * (new_wh / old_wh) - 0.5
    else:  # a single pixel has no extent to scale: everything maps to its centre
        resized = points * ((new_wh - 1) / (old_wh - 1).clip(1))
    return resized


def to_normalized(points: Tensor, size: Size, convention: Convention = "center") -> Tensor:
    """Points ``(..., 2)`` of a map of ``size`` as the ``[-1, 1]`` coordinates of ``F.grid_sample``.

    Use with ``align_corners=aligns_corners(convention)``; the sampled place is the same in both conventions.

    >>> to_normalized(torch.tensor([7.5, 0.0]), (16, 16))
    tensor([ 0.0000, -0.9375])
    """
    wh = points.new_tensor([size[1], size[0]])
    if check_convention(convention) == "center":
        return (2 * points + 1) / wh - 1
    return 2 * points / (wh - 1).clamp(min=1) - 1


def aligns_corners(convention: Convention) -> bool:
    """The ``align_corners`` flag of PyTorch that belongs to a convention."""
    return check_convention(convention) == "corner"


def flip_points(points: Points, width: int) -> Points:
    """Points ``(..., 2)`` after a horizontal flip of an image: ``x -> width - 1 - x``.

    >>> flip_points(np.array([[0.0, 3.0], [9.0, 3.0]]), width=10)
    array([[9., 3.],
           [0., 3.]])
    """
    x, y = points[..., 0], points[..., 1]
    if isinstance(points, Tensor):
        return torch.stack([width - 1 - x, y], dim=-1)
    return np.stack([width - 1 - x, y], axis=-1)


def resize_boxes(boxes: Points, old: Size, new: Size) -> Points:
    """Boxes ``(..., 4)`` as ``x0, y0, x1, y1`` after a resize: extents scale by the image's factors.

    Only extents enter the metric, so both conventions share this.

    >>> resize_boxes(np.array([10.0, 20.0, 60.0, 40.0]), (100, 200), (256, 256))
    array([ 12.8,  51.2,  76.8, 102.4])
    """
    scale = (new[1] / old[1], new[0] / old[0]) * 2
    result: Points = boxes * _like(boxes, scale)
    return result


def flip_boxes(boxes: Points, width: int) -> Points:
    """Boxes ``(..., 4)`` after a horizontal flip; corners are pixel positions, so they flip like points."""
    if isinstance(boxes, Tensor):
        return torch.stack([width - 1 - boxes[..., 2], boxes[..., 1], width - 1 - boxes[..., 0], boxes[..., 3]], -1)
    return np.stack([width - 1 - boxes[..., 2], boxes[..., 1], width - 1 - boxes[..., 0], boxes[..., 3]], -1)


def cell_grid(size: Size, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """Centres of all cells of a map, row by row: ``(h * w, 2)`` xy.

    >>> cell_grid((2, 2)).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    rows = torch.arange(size[0], device=device, dtype=dtype or torch.get_default_dtype())
    columns = torch.arange(size[1], device=device, dtype=rows.dtype)
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack([x, y], dim=-1).reshape(-1, 2)


def check_convention(convention: str) -> str:
    """Return ``convention`` if it is one, else refuse with the allowed names."""
    if convention not in get_args(Convention):
        raise ConfigError(unknown_name("coordinate convention", convention, get_args(Convention)))
    return convention


def _like(points: Points, values: tuple[float, ...]) -> Points:
    if isinstance(points, Tensor):
        return points.new_tensor(values)
    return np.asarray(values, dtype=points.dtype)
