"""SimSC: semantic correspondence with temperature learning.

The public names resolve on first use, so that ``import simsc`` is quick:

- :func:`simsc.load` gives a :class:`simsc.Matcher` with ``match``, ``match_many``, ``encode`` and ``dense``;
- :func:`simsc.read_image` reads any image.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simsc._version import __version__

if TYPE_CHECKING:
    from simsc.images import read_image
    from simsc.matcher import DenseFlow, EncodedImage, Matcher, MatchResult, load

_HOMES = {
    "DenseFlow": "matcher",
    "EncodedImage": "matcher",
    "MatchResult": "matcher",
    "Matcher": "matcher",
    "load": "matcher",
    "read_image": "images",
}

__all__ = ["DenseFlow", "EncodedImage", "MatchResult", "Matcher", "__version__", "load", "read_image"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
