"""Matching: pure functions from feature maps to score maps to corresponding points. Importing this imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simsc.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

LOCALIZERS: Registry[Callable[..., Tensor]] = Registry("localizer", "simsc.localizers")
"""From scores ``(B, N, h, w)`` and the keyword ``beta`` (evaluation temperature) to points ``(B, N, 2)`` in cells."""

for _name in ("kernel-soft-argmax", "argmax", "soft-argmax", "window-soft-argmax"):
    LOCALIZERS.lazy(_name, f"simsc.matching.localize:{_name.replace('-', '_')}")
