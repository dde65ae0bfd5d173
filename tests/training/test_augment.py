from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsc.data.mixing import Material
from simsc.data.records import Annotated, ImageRef, Pair
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.protocol import find_protocol
from simsc.models.trained import build_model
from simsc.training.config import Config
from simsc.training.feed import TrainingFeed
from simsc.training.sampler import DrawnPairs, Item, ListedPairs, image_forwards
from simsc.training.trainer import Trainer


def dotted(key: str, points: np.ndarray) -> ImageRef:
    """A black image with a white pixel at every point."""
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[points[:, 1], points[:, 0]] = 255
    return ImageRef(key, (40, 60), render=lambda: pixels)


def dotted_pair() -> Pair:
    source, target = np.array([[20, 15], [30, 25]]), np.array([[25, 12], [40, 30]])
    return Pair("p", "c", dotted("a", source), dotted("b", target), source, target)


def varied(pairs: list[Pair], config: Config, epoch: int) -> list[Pair]:
    return ListedPairs([pairs], config).pairs([Item(index, index) for index in range(len(pairs))], epoch)


def views(pair: Pair) -> list[tuple[ImageRef, np.ndarray]]:
    return [(pair.source, pair.source_points), (pair.target, pair.target_points)]


@given(epoch=st.integers(0, 1000), seed=st.integers(0, 99), variants=st.sampled_from([0, 3]))
def test_points_stay_on_what_they_marked(epoch: int, seed: int, variants: int) -> None:
    pair = dotted_pair()
    (copy,) = varied([pair], Config(flip=0.5, crop=0.8, variants=variants, seed=seed), epoch)
    for ref, points in views(copy):
        pixels = ref.load()
        assert pixels.shape[:2] == ref.size
        x, y = points.astype(int).T
        assert (pixels[y, x] == 255).all()


def test_copies_differ_from_epoch_to_epoch() -> None:
    pair = dotted_pair()
    config = Config(flip=0.5, crop=0.8, colour=0.2)
    assert len({varied([pair], config, epoch)[0].source.key for epoch in range(20)}) == 20


def test_the_same_epoch_is_the_same_copy_in_both_orders() -> None:
    pair = dotted_pair()
    for epoch in range(10):
        one, other = varied([pair, pair.swapped()], Config(flip=0.5, crop=0.5, colour=0.3), epoch)
        assert one.source.key == other.target.key
        np.testing.assert_array_equal(one.source.load(), other.target.load())
        np.testing.assert_array_equal(one.source_points, other.target_points)


def test_a_crop_keeps_the_points_of_every_pair() -> None:
    pair = dotted_pair()
    corners = np.array([[0, 0], [59, 39]])
    wide = replace(pair, name="q", source_points=corners)
    copy, _ = varied([pair, wide], Config(crop=0.9), 0)
    assert copy.source.size == pair.source.size
    assert copy.target.size != pair.target.size


def test_variants_are_finite_and_all_listed() -> None:
    pair = dotted_pair()
    config = Config(flip=0.5, crop=0.5, colour=0.3, variants=3)
    seen = {ref.key for epoch in range(200) for ref, _ in views(varied([pair], config, epoch)[0])}
    assert seen == {ref.key for ref in ListedPairs([[pair]], config).all_images()}
    assert len(seen) == 2 * 3 * 2


def test_augmented_pairs_share_images_as_plain_ones_do(tiny_pairs: list[Pair], tiny_config: Config) -> None:
    config = tiny_config.updated({"crop": 0.5, "cache": "none"})
    model = build_model(config.to_dict(), weights="random")
    pairing = ListedPairs([tiny_pairs], config)
    feed = TrainingFeed(pairing, ImageEncoder(model, find_protocol("paper-256", 64)))
    forwards = sum(len(work.batch.images) for work in feed.epoch(0))
    plain = image_forwards(ListedPairs([tiny_pairs], config.updated({"crop": 0})), 0)
    assert forwards == image_forwards(pairing, 0) == plain < 2 * len(tiny_pairs)


def test_a_whole_group_is_mirrored_or_none_of_it_and_points_stay_on_what_they_marked() -> None:
    marks = [np.array([[20 + n, 15], [30, 25 + n]]) for n in range(8)]
    objects = [
        Annotated(str(n), "c", dotted(str(n), points), points.astype(float), np.array([True, True]))
        for n, points in enumerate(marks)
    ]
    config = Config(group=4, batch_size=1, flip=0.5, crop=0.4)
    pairing = DrawnPairs([Material("m", 2.0, "img", objects=objects)], config)
    kinds, copies = set(), set()
    for epoch in range(6):
        for batch in pairing.batches(epoch):  # one group
            pairs = pairing.pairs(batch, epoch)
            mirrored = {"|mirror" in ref.key for pair in pairs for ref in (pair.source, pair.target)}
            assert len(mirrored) == 1
            kinds |= mirrored
            copies |= {(epoch, pair.source.key.replace("|mirror", "")) for pair in pairs}
            for ref, points in views(pairs[0]):
                x, y = points.astype(int).T
                assert (ref.load()[y, x] == 255).all()
    assert kinds == {True, False}
    assert len(copies) > 6 * 8 * 1.5  # an image that an epoch shows again comes as another copy


def test_a_run_with_cached_variants_equals_one_without_a_cache(tiny_root, tiny_config: Config, tmp_path) -> None:
    results = []
    for cache in ("memory", "disk", "none"):
        config = tiny_config.updated({"crop": 0.5, "flip": 0.5, "variants": 2, "cache": cache})
        trainer = Trainer(config, tmp_path / cache, root=tiny_root, device="cpu")
        trainer.run()
        results.append([record["loss"] for record in trainer.folder.read_metrics() if "loss" in record])
    for losses in results[1:]:
        assert losses == pytest.approx(results[0], rel=1e-4)


NAMES = ("L_Ear", "R_Ear", "Nose", "L_Fin")  # the last one has no twin


def sided(key: str, names: tuple[str, ...] = NAMES) -> Annotated:
    points = np.array([[10.0, 15.0], [40.0, 12.0], [25.0, 20.0], [30.0, 30.0]])
    image = ImageRef(key, (40, 60), render=lambda: np.zeros((40, 60, 3), dtype=np.uint8))
    return Annotated(key, "c", image, points, np.ones(4, dtype=bool), point_names=names)


def source_points(names: tuple[str, ...], **settings: float) -> list[tuple[str, dict[str, tuple[float, ...]]]]:
    """What an epoch shows: keys of the sources' images, and their points by name."""
    pairing = DrawnPairs(
        [Material("m", 1.0, "img", objects=[sided(str(n), names) for n in range(12)])], Config(group=4, **settings)
    )
    pairs = [pair for batch in pairing.batches(0) for pair in pairing.pairs(batch, 0)]
    return [
        (pair.source.key, dict(zip(pair.point_names, map(tuple, pair.source_points), strict=True))) for pair in pairs
    ]


def test_an_image_mirrored_by_itself_exchanges_left_and_right() -> None:
    for key, points in source_points(NAMES, flip_alone=1.0):
        assert key.endswith("|mirror")
        assert points == {"L_Ear": (19.0, 12.0), "R_Ear": (49.0, 15.0), "Nose": (34.0, 20.0)}  # 59 - x of the twin


def test_mirrored_by_itself_and_with_its_group_an_image_is_as_it_was_but_for_the_names() -> None:
    for key, points in source_points(NAMES, flip_alone=1.0, flip=1.0):
        assert "mirror" not in key
        assert points == {"L_Ear": (40.0, 12.0), "R_Ear": (10.0, 15.0), "Nose": (25.0, 20.0)}


def test_only_images_whose_points_have_names_are_mirrored_by_themselves() -> None:
    seen = {"mirror" in key for key, _ in source_points(NAMES, flip_alone=0.5)}
    assert seen == {False, True}
    for names in ((), ("0", "1", "2", "3")):
        assert not any("mirror" in key for key, _ in source_points(names, flip_alone=1.0))
