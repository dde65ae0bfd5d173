import numpy as np

from simsc.pictures.numbering import number_places


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
