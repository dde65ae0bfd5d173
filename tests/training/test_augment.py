from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsc.data.records import ImageRef, Pair
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.protocol import find_protocol
from simsc.models.trained import build_model
from simsc.training.augment import Augmenter
from simsc.training.config import Config
from simsc.training.feed import TrainingFeed
from simsc.training.sampler import image_forwards
from simsc.training.trainer import Trainer


def dotted(key: str, points: np.ndarray) -> ImageRef:
    """A black image with a white pixel at every point."""
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[points[:, 1], points[:, 0]] = 255
    return ImageRef(key, (40, 60), render=lambda: pixels)


def dotted_pair() -> Pair:
    source, target = np.array([[20, 15], [30, 25]]), np.array([[25, 12], [40, 30]])
    return Pair("p", "c", dotted("a", source), dotted("b", target), source, target)


def views(pair: Pair) -> list[tuple[ImageRef, np.ndarray]]:
    return [(pair.source, pair.source_points), (pair.target, pair.target_points)]


@given(epoch=st.integers(0, 1000), seed=st.integers(0, 99), variants=st.sampled_from([0, 3]))
def test_points_stay_on_what_they_marked(epoch: int, seed: int, variants: int) -> None:
    pair = dotted_pair()
    varied = Augmenter([pair], Config(flip=0.5, crop=0.8, variants=variants, seed=seed))(pair, epoch)
    for ref, points in views(varied):
        pixels = ref.load()
        assert pixels.shape[:2] == ref.size
        x, y = points.astype(int).T
        assert (pixels[y, x] == 255).all()


def test_copies_differ_from_epoch_to_epoch() -> None:
    pair = dotted_pair()
    augment = Augmenter([pair], Config(flip=0.5, crop=0.8, colour=0.2))
    assert len({augment(pair, epoch).source.key for epoch in range(20)}) == 20


def test_the_same_epoch_is_the_same_copy_in_both_orders() -> None:
    pair = dotted_pair()
    augment = Augmenter([pair], Config(flip=0.5, crop=0.5, colour=0.3))
    for epoch in range(10):
        one, other = augment(pair, epoch), augment(pair.swapped(), epoch)
        assert one.source.key == other.target.key
        np.testing.assert_array_equal(one.source.load(), other.target.load())
        np.testing.assert_array_equal(one.source_points, other.target_points)


def test_a_crop_keeps_the_points_of_every_pair() -> None:
    pair = dotted_pair()
    corners = np.array([[0, 0], [59, 39]])
    wide = replace(pair, name="q", source_points=corners)
    varied = Augmenter([pair, wide], Config(crop=0.9))(pair, 0)
    assert varied.source.size == pair.source.size
    assert varied.target.size != pair.target.size


def test_variants_are_finite_and_all_listed() -> None:
    pair = dotted_pair()
    augment = Augmenter([pair], Config(flip=0.5, crop=0.5, colour=0.3, variants=3))
    seen = {ref.key for epoch in range(200) for ref, _ in views(augment(pair, epoch))}
    assert seen == {ref.key for ref in augment.copies()}
    assert len(seen) == 2 * 3 * 2


def test_augmented_pairs_share_images_as_plain_ones_do(tiny_pairs: list[Pair], tiny_config: Config) -> None:
    config = tiny_config.updated({"crop": 0.5, "cache": "none"})
    model = build_model(config.to_dict(), weights="random")
    feed = TrainingFeed(tiny_pairs, ImageEncoder(model, find_protocol("paper-256", 64)), config)
    forwards = sum(len(work.batch.images) for work in feed.epoch(0))
    assert forwards == image_forwards(tiny_pairs, feed.batches(0)) < 2 * len(tiny_pairs)


def test_a_run_with_cached_variants_equals_one_without_a_cache(tiny_root, tiny_config: Config, tmp_path) -> None:
    results = []
    for cache in ("memory", "disk", "none"):
        config = tiny_config.updated({"crop": 0.5, "flip": 0.5, "variants": 2, "cache": cache})
        trainer = Trainer(config, tmp_path / cache, root=tiny_root, device="cpu")
        trainer.run()
        results.append([record["loss"] for record in trainer.folder.read_metrics() if "loss" in record])
    for losses in results[1:]:
        assert losses == pytest.approx(results[0], rel=1e-4)
