"""Any head works in the matcher as none does."""

from __future__ import annotations

import numpy as np
import torch

from simsc.coordinates import resize_points
from simsc.images import resize_image
from simsc.matcher import Matcher
from simsc.matching.localize import localize
from simsc.models.model import SimSC

POINTS = np.array([(20.0, 30.0), (100.5, 60.0), (70.0, 10.25)])
SIZE = (128, 128)


def test_matches_are_those_of_the_score_maps(head_model: SimSC, mosaic) -> None:
    first, second = mosaic(5, 8, seed=1), mosaic(7, 6, seed=2)
    matcher = Matcher(head_model, size=SIZE[0], device="cpu")
    found = matcher.match(first, second, POINTS)
    with torch.inference_mode():
        source, target = (head_model.encode(resize_image(image, SIZE)[None]) for image in (first, second))
        query = torch.from_numpy(resize_points(POINTS, first.shape[:2], SIZE)).float()
        cells = localize(head_model.score_maps(source, target, query[None]))[0].double()
    np.testing.assert_allclose(found.points, resize_points(cells, target.map_size, second.shape[:2]), atol=0.05)
    assert ((found.confidence > 0) & (found.confidence <= 1)).all()
    np.testing.assert_allclose(found.heatmaps.sum(axis=(1, 2)), 1, rtol=1e-5)
    assert matcher.dense(first, second).points.shape == (*second.shape[:2], 2)


def test_an_image_is_matched_with_itself(head_model: SimSC, mosaic) -> None:
    image = mosaic(8, 8)
    cell = 128 / Matcher(head_model, size=SIZE[0], device="cpu").encode(image).features.map_size[0]
    centres = np.array([(0, 0), (2, 1), (7, 4)]) * 16 + cell / 2 - 0.5
    for flip in (False, True):
        matcher = Matcher(head_model, size=SIZE[0], flip=flip, localizer="argmax", device="cpu")
        found = matcher.match(image, image, centres)
        np.testing.assert_allclose(found.points, centres, atol=1e-3)
        np.testing.assert_allclose(found.cycle_error, 0, atol=1e-3)
