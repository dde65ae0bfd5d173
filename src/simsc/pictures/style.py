"""One look for every picture: colours, sizes and fonts, for the drawn pictures and for the curves.

The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart. Wherever a colour
carries meaning, a shape, a number or a caption says the same.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import ImageFont

Color = tuple[int, int, int]

INK: Color = (34, 34, 34)
MUTED: Color = (102, 102, 102)
PAPER: Color = (255, 255, 255)
SHADE: Color = (232, 232, 232)

ORANGE: Color = (230, 159, 0)
SKY: Color = (86, 180, 233)
GREEN: Color = (0, 158, 115)
YELLOW: Color = (240, 228, 66)
BLUE: Color = (0, 114, 178)
VERMILLION: Color = (213, 94, 0)
PURPLE: Color = (204, 121, 167)

CORRECT = BLUE
INCORRECT = VERMILLION
STATUS: dict[str, Color] = {"sure": GREEN, "unsure": ORANGE, "none": MUTED}
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)  # curves: yellow is too pale on white
MATCHES = (ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE)  # lines over photographs

MARGIN = 12
GAP = 14
TITLE_SIZE = 18
CAPTION_SIZE = 14
LINE = round(CAPTION_SIZE * 1.35)

MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1)), (0, (8, 2)))

# Signs that the font that comes with Pillow lacks; Greek letters and accents are found by their names.
_SPELT_OUT = {
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{MINUS SIGN}": "-",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
}
# Equal steps of lightness from dark violet over red to pale yellow: the order shows in grey print as well.
_RAMP = np.array(
    [
        (19, 0, 76), (56, 0, 102), (97, 14, 111), (138, 34, 109), (177, 56, 100),
        (210, 84, 85), (236, 118, 65), (251, 157, 48), (254, 199, 74), (251, 241, 99),
    ],
    dtype=np.float64,
)  # fmt: skip
# Right, down, left and up are vermillion, yellow, green and blue, with one colour between each two.
_WHEEL = np.array([VERMILLION, ORANGE, YELLOW, (120, 193, 90), GREEN, SKY, BLUE, PURPLE, VERMILLION], dtype=np.float64)
_CORNERS = np.array([[BLUE, SKY], [VERMILLION, YELLOW]], dtype=np.float64)


def hexadecimal(color: Color) -> str:
    """A colour as Matplotlib and SVG write it.

    >>> hexadecimal(BLUE)
    '#0072B2'
    """
    return "#{:02X}{:02X}{:02X}".format(*color)


@lru_cache(maxsize=32)
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font that comes with Pillow, hence the same on every machine."""
    return ImageFont.load_default(size=size)


def legible(text: str) -> str:
    """``text`` with the signs that the font lacks spelt out, so that no empty box is drawn.

    >>> legible("β = 0.03, café")
    'beta = 0.03, cafe'
    """
    return "".join(sign if _has_glyph(sign) else _substitute(sign) for sign in text)


def matplotlib_settings() -> dict[str, Any]:
    """Settings (``rcParams``) of every curve."""
    ink, muted = hexadecimal(INK), hexadecimal(MUTED)
    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # comes with Matplotlib: the same everywhere
        "font.size": 11,
        "axes.titlesize": 12,
        "axes.titlelocation": "left",
        "axes.labelcolor": ink,
        "axes.edgecolor": muted,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E4E4E4",
        "grid.linewidth": 0.8,
        "lines.linewidth": 2.0,
        "lines.markersize": 5.5,
        "text.color": ink,
        "xtick.color": muted,
        "ytick.color": muted,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "legend.frameon": False,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "savefig.dpi": 160,
        "svg.fonttype": "path",
        "svg.hashsalt": "simsc",  # the same curve gives the same file
    }


@lru_cache(maxsize=1024)
def _has_glyph(sign: str) -> bool:
    if sign.isascii():
        return True
    shapes = [bytes(font(16).getmask(text)) for text in (sign, "\ue000")]  # a private sign shows the empty box
    return shapes[0] != shapes[1]


def _substitute(sign: str) -> str:
    if sign in _SPELT_OUT:
        return _SPELT_OUT[sign]
    name = unicodedata.name(sign, "")
    if name.startswith("GREEK SMALL LETTER"):
        return name.split()[3].lower()
    base = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return base or "?"


def ramp_colors(values: np.ndarray) -> np.ndarray:
    """Colours ``(..., 3)`` in 0..255 of values ``(...)``; those outside ``[0, 1]`` take the end colours.

    >>> ramp_colors(np.array([0.0, 1.0])).tolist()
    [[19.0, 0.0, 76.0], [251.0, 241.0, 99.0]]
    """
    return _interpolate(np.clip(np.nan_to_num(values), 0, 1), _RAMP)


def direction_colors(vectors: np.ndarray, longest: float) -> np.ndarray:
    """Colours ``(..., 3)`` of xy vectors ``(..., 2)``: hue is the direction, paleness says how short.

    >>> direction_colors(np.array([0.0, 0.0]), longest=1.0).tolist()
    [255.0, 255.0, 255.0]
    """
    turn = np.arctan2(vectors[..., 1], vectors[..., 0]) / (2 * np.pi) % 1
    strength = np.clip(np.linalg.norm(vectors, axis=-1, keepdims=True) / max(longest, 1e-9), 0, 1)
    result: np.ndarray = (1 - strength) * np.asarray(PAPER, dtype=np.float64) + strength * _interpolate(turn, _WHEEL)
    return result


def place_colors(places: np.ndarray) -> np.ndarray:
    """Colours ``(..., 3)`` of places ``(..., 2)`` in ``[0, 1]``: every place of the unit square its own colour.

    >>> place_colors(np.array([0.0, 0.0])).tolist()    # the upper left corner
    [0.0, 114.0, 178.0]
    """
    x, y = np.clip(places[..., :1], 0, 1), np.clip(places[..., 1:], 0, 1)
    top = (1 - x) * _CORNERS[0, 0] + x * _CORNERS[0, 1]
    bottom = (1 - x) * _CORNERS[1, 0] + x * _CORNERS[1, 1]
    result: np.ndarray = (1 - y) * top + y * bottom
    return result


def _interpolate(positions: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    steps = np.linspace(0, 1, len(anchors))
    return np.stack([np.interp(positions, steps, anchors[:, channel]) for channel in range(3)], axis=-1)
