import numpy as np
import pytest

from simsc.coordinates import resize_points
from simsc.errors import DataError
from simsc.pictures import draw_heatmap, draw_temperature_comparison
from simsc.pictures.heatmaps import temperature_softmax
from simsc.pictures.resample import resize_map
from simsc.pictures.style import SKY, ramp_colors


def black(height: int, width: int) -> np.ndarray:
    return np.zeros((height, width, 3), np.uint8)


@pytest.mark.parametrize("convention", ["center", "corner"])
@pytest.mark.parametrize("cell", [(2, 1), (6, 4), (3, 3)])
@pytest.mark.parametrize("height", [160, 320])
def test_the_peak_shows_where_the_cell_lies(convention, cell, height):
    size, scores = (160, 240), np.zeros((6, 9))
    scores[cell[1], cell[0]] = 1
    picture = np.asarray(draw_heatmap(black(*size), scores, convention=convention, height=height).convert("L"))
    brightest = np.argwhere(picture == picture.max()).mean(axis=0)[::-1]
    place = resize_points(np.array([cell], dtype=np.float64), scores.shape, size, convention)
    expected = resize_points(place, size, picture.shape)[0]
    assert np.abs(brightest - expected).max() < 1.01


def test_corner_cells_reach_the_corner_pixels_in_the_corner_convention():
    values = np.array([[0.0, 1.0], [2.0, 3.0]])
    shown = resize_map(values, (9, 9), (9, 9), "corner")
    assert shown[0, 0] == 0
    assert shown[-1, -1] == 3
    assert shown[4, 4] == pytest.approx(1.5)
    assert np.allclose(np.diff(shown, axis=1), 1 / 8)


def test_resizing_keeps_a_constant_constant():
    assert np.allclose(resize_map(np.full((3, 5, 2), 0.7), (40, 31), (400, 310)), 0.7)


def test_an_even_map_looks_even_and_bright():
    even = draw_heatmap(black(60, 60), np.full((4, 4), 1 / 16))
    assert len(even.getcolors()) == 1
    assert np.asarray(even.convert("L")).min() > 120


def test_point_is_marked_at_its_pixel():
    picture = draw_heatmap(black(100, 100), np.zeros((4, 4)), point=(25, 75), height=100)
    assert picture.getpixel((25, 75)) == SKY


def test_the_ramp_rises_in_lightness():
    light = ramp_colors(np.linspace(0, 1, 50)) @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(light) > 0).all()


def test_lower_temperature_sharpens():
    scores = np.random.default_rng(0).uniform(-1, 1, (8, 8))
    maps = [temperature_softmax(scores, beta) for beta in (1.0, 0.1, 0.03)]
    assert [each.sum() for each in maps] == pytest.approx([1, 1, 1])
    assert maps[0].max() < maps[1].max() < maps[2].max()
    assert np.isfinite(temperature_softmax(scores, 1e-6)).all()


def test_comparison_shows_one_map_per_temperature():
    scores = np.zeros((4, 4))
    sizes = [
        draw_temperature_comparison(black(50, 50), black(50, 50), (3, 3), scores, betas, truth=(9, 9)).width
        for betas in ([1.0], [1.0, 0.03], [1.0, 0.1, 0.03])
    ]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] >= 240


@pytest.mark.parametrize("size", [(1, 1), (50, 10000), (10000, 50)])
def test_odd_images(size):
    assert draw_heatmap(black(*size), np.eye(3), point=(0, 0)).width <= 3 * 360


@pytest.mark.parametrize("scores", [np.zeros(4), np.full((2, 2), np.nan), np.zeros((0, 3))])
def test_a_bad_map_is_refused(scores):
    with pytest.raises(DataError, match="scores"):
        draw_heatmap(black(9, 9), scores)


def test_temperature_zero_is_refused():
    with pytest.raises(DataError, match="temperature 0"):
        temperature_softmax(np.zeros((2, 2)), 0)
