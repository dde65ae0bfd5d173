from __future__ import annotations

import numpy as np

from simsc.data.records import ImageRef, Pair
from simsc.engine.augment import augment_pair
from simsc.engine.config import Config


def dotted(key: str, points: np.ndarray) -> ImageRef:
    """A black image with a white pixel at every point."""
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[points[:, 1], points[:, 0]] = 255
    return ImageRef(key, (40, 60), render=lambda: pixels)


def test_points_stay_on_what_they_marked() -> None:
    source, target = np.array([[20, 15], [30, 25]]), np.array([[25, 12], [40, 30]])
    pair = Pair("p", "c", dotted("a", source), dotted("b", target), source, target)
    config = Config(flip=0.5, crop=0.8)
    sizes = set()
    for epoch in range(20):
        varied = augment_pair(pair, config, epoch, 0)
        sizes.add(varied.source.size)
        for ref, points in ((varied.source, varied.source_points), (varied.target, varied.target_points)):
            x, y = points.astype(int).T
            assert (ref.load()[y, x] == 255).all()
    assert len(sizes) > 5


def test_the_same_epoch_and_index_is_the_same_variant() -> None:
    points = np.array([[20, 15]])
    pair = Pair("p", "c", dotted("a", points), dotted("b", points), points, points)
    config = Config(flip=0.5, crop=0.5, colour=0.3)
    one, again, other = (augment_pair(pair, config, epoch, 4) for epoch in (1, 1, 2))
    assert one.source.key == again.source.key != other.source.key
    np.testing.assert_array_equal(one.source.load(), again.source.load())
