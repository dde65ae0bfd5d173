import numpy as np
import pytest

from simsc.coordinates import resize_points
from simsc.errors import DataError
from simsc.pictures import draw_matches
from simsc.pictures.canvas import text_width
from simsc.pictures.matches import number_places
from simsc.pictures.sheet import fit_panel, shown_size
from simsc.pictures.style import CORRECT, GAP, INCORRECT, LINE, MARGIN, PAPER, STATUS


def black(height: int, width: int) -> np.ndarray:
    return np.zeros((height, width, 3), np.uint8)


def centroid(weights: np.ndarray) -> np.ndarray:
    y, x = np.mgrid[: weights.shape[0], : weights.shape[1]]
    return np.array([(weights * x).sum(), (weights * y).sum()]) / weights.sum()


def left_panel(picture, size: tuple[int, int]) -> np.ndarray:
    pixels = np.asarray(picture.convert("L"), dtype=np.float64)
    return pixels[MARGIN : MARGIN + size[0], MARGIN : MARGIN + size[1]]


def at_target(point, size, height=360, source_width=360) -> tuple[int, int]:
    """Pixel of the sheet where a point of the right image lies."""
    x, y = resize_points(np.array(point, dtype=np.float64), size, shown_size(size, height))
    return round(x) + MARGIN + source_width + GAP, round(y) + MARGIN


@pytest.mark.parametrize("size", [(40, 60), (47, 31), (100, 100)])
def test_a_marker_lies_on_the_very_pixel_it_marks(size):
    point = (size[1] // 3, size[0] // 4)
    marked = black(*size)
    marked[point[1], point[0]] = 255
    shown = shown_size(size, 360)
    pixel = left_panel(draw_matches(marked, black(9, 9), [], []), shown)
    marker = left_panel(draw_matches(black(*size), black(9, 9), [point], [(4, 4)], numbers=False, lines=False), shown)
    assert np.abs(centroid(pixel) - centroid(marker)).max() < 0.1


def test_right_and_wrong_differ_in_colour_and_in_shape():
    target = [(25, 25), (75, 75)]
    picture = draw_matches(
        black(100, 100), black(100, 100), target, target, correct=np.array([True, False]), numbers=False, lines=False
    )
    good, bad = (at_target(point, (100, 100)) for point in target)
    assert picture.getpixel(good) == CORRECT
    assert picture.getpixel(bad) == INCORRECT
    assert picture.getpixel((good[0] + 4, good[1])) == CORRECT  # a disc is full beside its centre,
    assert picture.getpixel((bad[0] + 5, bad[1])) != INCORRECT  # a cross is not


def test_each_status_has_its_colour_and_its_shape():
    points = [(25, 25), (75, 25), (50, 75)]
    status = np.array(["sure", "unsure", "none"])
    options = {"status": status, "numbers": False, "lines": False}
    picture = draw_matches(black(100, 100), black(100, 100), points, points, **options)
    sure, unsure, none = (at_target(point, (100, 100)) for point in points)
    assert picture.getpixel(sure) == STATUS["sure"]
    assert picture.getpixel(unsure) == (0, 0, 0)  # hollow
    assert picture.getpixel((unsure[0] + 5, unsure[1])) == STATUS["unsure"]
    assert picture.getpixel(none) == (0, 0, 0)  # it has no counterpart,
    assert picture.getpixel((none[0] - 360 - GAP, none[1])) == STATUS["none"]  # and a cross where it was asked for
    assert len(set(STATUS.values())) == 3


def test_of_matches_of_one_status_the_more_confident_has_the_clearer_line():
    points = [(20, 25), (20, 75)]
    picture = draw_matches(
        black(100, 100), black(100, 100), points, [(80, 25), (80, 75)], numbers=False,
        status=np.array(["sure", "sure"]), confidence=np.array([0.9, 0.1]),
    )  # fmt: skip
    across = np.asarray(picture, dtype=int)[MARGIN : MARGIN + 360, MARGIN + 300].max(axis=1)  # over both lines
    assert across[:180].max() > across[180:].max() + 40
    assert picture.getpixel(at_target((80, 75), (100, 100))) == STATUS["sure"]  # markers are clear


def test_points_without_a_counterpart_have_no_line_and_others_keep_their_numbers():
    points = [(20, 50), (80, 50)]
    options = {"numbers": False, "status": np.array(["none", "none"])}
    unconnected = draw_matches(black(100, 100), black(100, 100), points, points[::-1], **options)
    between = np.asarray(unconnected)[MARGIN : MARGIN + 360, MARGIN + 360 : MARGIN + 360 + GAP]
    assert (between == PAPER).all()
    second = [draw_matches(black(100, 100), black(100, 100), points, points, status=np.array(["none", last]))
              for last in ("unsure", "none")]  # fmt: skip
    both = draw_matches(black(100, 100), black(100, 100), points, points, status=np.array(["unsure", "unsure"]))
    beside = (slice(MARGIN + 150, MARGIN + 178), slice(MARGIN + 360 + GAP + 292, MARGIN + 360 + GAP + 316))
    assert (np.asarray(second[0])[beside] == np.asarray(both)[beside]).all()  # it is number 2 in both pictures
    assert (np.asarray(second[1])[beside] == 0).all()


def test_truth_decides_within_alpha_of_the_larger_side():
    points, truth = [(20, 20), (60, 60)], [(30, 20), (71, 60)]
    picture = draw_matches(black(80, 100), black(80, 100), points, points, truth=truth, numbers=False, lines=False)
    places = [at_target(point, (80, 100), source_width=450) for point in points]
    assert [picture.getpixel(place) for place in places] == [CORRECT, INCORRECT]


def test_a_wrong_match_is_tied_to_its_truth():
    size = (100, 100)
    common = {"numbers": False, "lines": False, "correct": np.array([False])}
    with_truth = draw_matches(black(*size), black(*size), [(9, 9)], [(20, 50)], truth=[(80, 50)], **common)
    without = draw_matches(black(*size), black(*size), [(9, 9)], [(20, 50)], **common)
    halfway = at_target((50, 50), size)
    above = halfway[0], halfway[1] - 1
    assert max(without.getpixel(above)) == 0
    assert max(with_truth.getpixel(above)) > 50


def test_without_truth_neighbours_have_different_colours():
    points = [(20, 20), (50, 50), (80, 80)]
    picture = draw_matches(black(100, 100), black(100, 100), points, points, numbers=False)
    assert len({picture.getpixel(at_target(point, (100, 100))) for point in points}) == 3


def test_confidence_orders_the_brightness():
    points = [(20, 20), (50, 50), (80, 80)]
    picture = draw_matches(
        black(100, 100),
        black(100, 100),
        points,
        points,
        confidence=np.array([0.1, 0.5, 0.9]),
        numbers=False,
        lines=False,
    ).convert("L")
    shades = [picture.getpixel(at_target(point, (100, 100))) for point in points]
    assert shades == sorted(shades)
    assert shades[0] < shades[2]


def test_both_images_get_the_same_height():
    picture = draw_matches(black(300, 400), black(50, 25), [], [], height=200)
    assert picture.size == (2 * MARGIN + 267 + GAP + 100, 200 + 2 * MARGIN)


@pytest.mark.parametrize("size", [(1, 1), (50, 10000), (10000, 50), (1, 300), (300, 1)])
def test_odd_images(size):
    corner = (size[1] - 1, size[0] - 1)
    picture = draw_matches(black(*size), black(40, 40), [corner], [(3, 3)], truth=[(39, 39)], title="odd")
    assert picture.width < 3 * 360 + 360 + 100
    assert picture.height < 360 + 100


def test_no_points_draw_only_the_images():
    white = np.full((50, 50, 3), 255, np.uint8)
    picture = draw_matches(white, white, np.empty((0, 2)), np.empty((0, 2)))
    assert picture.getcolors() == [(picture.width * picture.height, PAPER)]


def test_points_outside_are_drawn_on_the_border():
    panel = fit_panel(black(100, 100), 100)
    assert panel.places(np.array([[-500.0, 50.0], [900.0, 50.0]])).tolist() == [[0, 50], [99, 50]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_points": [(1, 1)]}, "target_points: expected 2"),
        ({"source_points": [(1, np.nan), (2, 2)]}, "source_points: expected finite"),
        ({"truth": [(1, 1)]}, "truth: expected 2"),
        ({"correct": np.array([True])}, "correct: expected 2"),
        ({"confidence": np.array([0.5])}, "confidence: expected 2"),
        ({"status": np.array(["sure"])}, "status: expected 2"),
        ({"status": np.array(["sure", "perhaps"])}, "perhaps.*sure, unsure, none"),
        ({"source": np.zeros((5, 5))}, "uint8"),
    ],
)
def test_wrong_input_is_named(change, message):
    arguments = {"source": black(9, 9), "target": black(9, 9), "source_points": [(1, 1), (2, 2)],
                 "target_points": [(1, 1), (2, 2)], **change}  # fmt: skip
    with pytest.raises(DataError, match=message):
        draw_matches(**arguments)


def test_numbers_of_crowded_markers_do_not_cover_each_other():
    markers = np.array([[100.0, 100.0], [112.0, 100.0], [100.0, 112.0], [112.0, 112.0]])
    places = number_places(markers, 15.0, (300, 300))
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)[np.triu_indices(4, 1)]
    assert gaps.min() > 15


def test_numbers_stay_on_the_sheet():
    corners = np.array([[0.0, 0.0], [199.0, 0.0], [0.0, 99.0], [199.0, 99.0]])
    places = number_places(corners, 15.0, (100, 200))
    assert (places > 0).all()
    assert (places < [200, 100]).all()


def test_numbers_avoid_obstacles():
    marker = np.array([[50.0, 50.0]])
    free = number_places(marker, 15.0, (100, 100))
    assert np.linalg.norm(number_places(marker, 15.0, (100, 100), obstacles=free) - free) > 10


def test_no_markers_no_numbers():
    assert number_places(np.empty((0, 2)), 15.0, (100, 100)).shape == (0, 2)


def test_names_are_listed_below_in_columns_and_cover_nothing():
    points, status = [(20, 50), (80, 50), (50, 20)], np.array(["sure", "unsure", "none"])
    plain, named, longer = (
        np.asarray(draw_matches(black(100, 100), black(100, 100), points, points, status=status, names=names))
        for names in ((), ("left ear", "", "tail"), ("left ear", "a name " * 40, "tail"))
    )
    assert (named[: len(plain)] == plain).all()
    strip = named[len(plain) :]
    assert len(strip) == LINE + MARGIN  # both names that there are stand in one row
    assert (strip[LINE:] == PAPER).all()
    ink = np.flatnonzero((strip != PAPER).any(axis=(0, 2)))
    second = MARGIN + text_width("1  left ear") + GAP
    assert ink.min() >= MARGIN
    assert ink[ink >= second - GAP / 2].min() == pytest.approx(second, abs=2)
    assert ink.max() == pytest.approx(second + text_width("3  tail"), abs=2)
    rows = longer[len(plain) :]
    assert len(rows) == 3 * LINE + MARGIN  # one that is too long is cut
    assert (rows[:, -MARGIN:] == PAPER).all()


def test_names_of_other_points_are_refused():
    with pytest.raises(DataError, match="names: expected 1, one per source point, got 2"):
        draw_matches(black(9, 9), black(9, 9), [(1, 1)], [(1, 1)], names=("ear", "tail"))
