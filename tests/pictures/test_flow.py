import numpy as np
import pytest

from simsc.errors import DataError
from simsc.pictures import draw_flow
from simsc.pictures.flow import CAPTIONS, FlowViews
from simsc.pictures.resample import checkerboard, pixel_grid, transfer_colors, warp_source
from simsc.pictures.style import SHADE, direction_colors, place_colors


@pytest.fixture
def noise() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)


def test_identity_warps_to_itself(noise):
    assert (warp_source(noise, pixel_grid((24, 32))) == noise).all()


def test_a_shift_moves_pixels_and_shows_what_is_missing(noise):
    warped = warp_source(noise, pixel_grid((24, 32)) + np.array([5, 0]))
    assert (warped[:, :27] == noise[:, 5:]).all()
    assert (warped[:, 27:] == SHADE).all()


def test_half_a_pixel_is_interpolated(noise):
    warped = warp_source(noise, pixel_grid((24, 31)) + np.array([0.5, 0]))
    mean = (noise[:, :-1].astype(float) + noise[:, 1:]) / 2
    assert np.abs(warped - mean).max() <= 0.5


def test_checkerboard_of_equal_images_is_the_image(noise):
    assert (checkerboard(noise, noise) == noise).all()


def test_checkerboard_shows_both_halves():
    board = checkerboard(np.zeros((60, 60, 3)), np.ones((60, 60, 3)), squares=6)
    assert board.mean() == 0.5
    assert board[0, 0, 0] != board[0, 10, 0] == board[10, 0, 0]


def test_transferred_colours_keep_the_light_of_the_target(noise):
    grey = np.repeat(noise[..., :1], 3, axis=2)
    assert np.abs(transfer_colors(noise, noise).astype(int) - noise).max() <= 4  # rounding of the colour space
    assert np.abs(transfer_colors(grey, np.full_like(grey, 128)).astype(int) - grey).max() <= 1


def test_a_coarse_grid_gives_the_same_warp_as_a_fine_one():
    ramp = np.tile(np.linspace(0, 250, 64).astype(np.uint8)[None, :, None], (64, 1, 3))
    fine, coarse = pixel_grid((64, 64)), pixel_grid((8, 8)) * 8 + 3.5
    views = [FlowViews(ramp, ramp, grid, None, "center", 64).draw("warped") for grid in (fine, coarse)]
    middle = [np.asarray(view, dtype=float)[8:-8, 8:-8] for view in views]
    assert np.abs(middle[0] - middle[1]).max() <= 1


def test_opposite_directions_and_all_corners_have_different_colours():
    vectors = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for colors in (direction_colors(vectors, 1.0), place_colors(corners)):
        gaps = np.linalg.norm(colors[:, None] - colors[None], axis=-1)[np.triu_indices(4, 1)]
        assert gaps.min() > 60


def test_equal_images_of_different_size_do_not_move():
    small, large = np.zeros((30, 40, 3), np.uint8), np.zeros((60, 80, 3), np.uint8)
    grid = (pixel_grid((60, 80)) + 0.5) / 2 - 0.5
    picture = np.asarray(FlowViews(small, large, grid, None, "center", 60).draw("flow"))
    assert (picture[0] == 255).all()  # the first row has no stroke: white is no motion


def test_sheet_holds_all_views(noise):
    grid = pixel_grid((24, 32))
    with_confidence = draw_flow(noise, noise, grid, confidence=np.ones((3, 4)), height=60)
    without = draw_flow(noise, noise, grid, height=60)
    assert with_confidence.height > without.height  # three rows of three, two rows of four
    assert draw_flow(noise, noise, grid, panels=["source", "warped"], height=60).height < without.height


@pytest.mark.parametrize("size", [(1, 1), (5, 1000), (1000, 5)])
def test_odd_images(size):
    image = np.zeros((*size, 3), np.uint8)
    draw_flow(image, image, np.zeros((2, 2, 2)), confidence=np.zeros((2, 2)), panels=list(CAPTIONS), height=60)


def test_wrong_input_is_named(noise):
    grid = pixel_grid((24, 32))
    with pytest.raises(DataError, match="positions"):
        draw_flow(noise, noise, grid[..., 0])
    with pytest.raises(DataError, match="did you mean 'warped'"):
        draw_flow(noise, noise, grid, panels=["warpd"])
    with pytest.raises(DataError, match="no confidence"):
        draw_flow(noise, noise, grid, panels=["confidence"])
