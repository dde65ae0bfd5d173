import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsc.pictures.canvas import Canvas, shorten, text_width
from simsc.pictures.style import BLUE, INK, PAPER, legible


def ink(canvas: Canvas) -> np.ndarray:
    """How much of each pixel of a black-on-white sheet is covered, in [0, 1]."""
    return 1 - np.asarray(canvas.image.convert("L"), dtype=np.float64) / 255


def centroid(weights: np.ndarray) -> np.ndarray:
    y, x = np.mgrid[: weights.shape[0], : weights.shape[1]]
    return np.array([(weights * x).sum(), (weights * y).sum()]) / weights.sum()


place = st.floats(15, 25, allow_nan=False)


@settings(max_examples=25, deadline=None)
@given(place, place, st.sampled_from(["disc", "ring", "cross"]))
def test_markers_are_centred_to_a_fraction_of_a_pixel(x, y, shape):
    canvas = Canvas((41, 41))
    {
        "disc": lambda: canvas.disc((x, y), 5.3, (0, 0, 0)),
        "ring": lambda: canvas.ring((x, y), 5.3, 2.0, (0, 0, 0)),
        "cross": lambda: canvas.cross((x, y), 6.0, 3.0, (0, 0, 0)),
    }[shape]()
    assert np.abs(centroid(ink(canvas)) - (x, y)).max() < 0.06


def test_a_disc_has_the_area_of_a_disc():
    canvas = Canvas((41, 41))
    canvas.disc((20.3, 19.6), 8.0, (0, 0, 0))
    assert ink(canvas).sum() == pytest.approx(np.pi * 64, rel=0.01)


def test_a_line_covers_length_times_width():
    canvas = Canvas((60, 60))
    canvas.segment((10, 10), (40, 50), 3.0, (0, 0, 0))
    assert ink(canvas).sum() == pytest.approx(50 * 3 + np.pi * 1.5**2, rel=0.02)


def test_a_broken_line_has_gaps_and_the_same_ends():
    full, broken = Canvas((20, 100)), Canvas((20, 100))
    full.segment((5, 10), (95, 10), 2.0, (0, 0, 0))
    broken.dashes((5, 10), (95, 10), 2.0, (0, 0, 0))
    row = ink(broken)[10]
    assert row[5] > 0.9
    assert 0.4 < row[5:95].mean() < 0.8 < ink(full)[10][5:95].mean()


def test_opacity_blends():
    canvas = Canvas((21, 21))
    canvas.disc((10, 10), 5, (0, 0, 0), opacity=0.5)
    assert canvas.image.getpixel((10, 10)) == (128, 128, 128)


def test_shapes_outside_the_sheet_are_clipped():
    canvas = Canvas((10, 10))
    canvas.disc((-50, -50), 5, BLUE)
    canvas.disc((0, 0), 3, BLUE)
    assert canvas.image.getpixel((0, 0)) == BLUE
    assert canvas.image.getpixel((9, 9)) == PAPER


def test_text_is_drawn_in_its_colour():
    canvas = Canvas((30, 60))
    canvas.text((2, 2), "I", 24)
    assert INK in [color for _, color in canvas.image.getcolors(10_000)]


def test_signs_that_the_font_lacks_are_spelt_out():
    assert legible("\N{GREEK SMALL LETTER BETA} \N{MULTIPLICATION SIGN} \N{RIGHTWARDS ARROW}") == "beta x ->"
    assert legible("M\N{LATIN SMALL LETTER U WITH DIAERESIS}ller") in (
        "Muller",
        "M\N{LATIN SMALL LETTER U WITH DIAERESIS}ller",
    )
    assert legible("\N{CJK UNIFIED IDEOGRAPH-732B}") == "?"


@given(st.text("abc mW", min_size=1, max_size=60), st.integers(30, 200))
def test_shortened_text_fits(text, width):
    assert text_width(shorten(text, width)) <= width
