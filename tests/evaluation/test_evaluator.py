from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from simsc.data.records import ImageRef, Pair
from simsc.data.sources import load_pairs
from simsc.errors import ConfigError, DataError
from simsc.evaluation.cache import TrunkCache, choose_cache
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.evaluator import Evaluator, plan_blocks
from simsc.evaluation.predictions import Prediction, read_predictions, write_predictions
from simsc.evaluation.protocol import find_protocol
from simsc.evaluation.scoring import Score, score, stated_rules
from simsc.models.inference import prepare_for_inference
from simsc.models.model import SimSC
from simsc.models.trained import build_model
from simsc.training.batches import collate
from simsc.training.config import Config
from simsc.training.objective import PairObjective


@pytest.fixture(scope="module")
def model() -> SimSC:
    return build_model({"backbone": "resnet50.v1_in1k"}, weights="random").eval()


@pytest.fixture
def test_pairs(tiny_root: Path):
    return load_pairs("pairs", tiny_root, "test")


def predicted(model: SimSC, pairs, protocol: str = "paper-256@64", **options) -> list:
    return Evaluator(ImageEncoder(model, find_protocol(protocol)), **options).predict(pairs)


def test_sharing_images_gives_the_same_as_pair_by_pair(model: SimSC, test_pairs) -> None:
    together = predicted(model, test_pairs)
    singly = [predicted(model, [pair])[0] for pair in test_pairs]
    bounded = predicted(model, test_pairs, max_images=2)
    for one, other, third, pair in zip(together, singly, bounded, test_pairs, strict=True):
        assert one.pair == pair.name
        np.testing.assert_allclose(one.predicted, other.predicted, atol=1e-3)
        np.testing.assert_allclose(one.predicted, third.predicted, atol=1e-3)


@pytest.mark.parametrize("localizer", ["argmax", "kernel-soft-argmax"])
def test_matches_are_found_in_pixels_of_the_original_image(color_model: SimSC, mosaic, localizer: str) -> None:
    """The target is the source with its columns in another order; the network sees the target at half its height."""
    pixels, order = mosaic(), np.random.default_rng(1).permutation(16)
    cells = pixels.reshape(16, 16, 16, 16, 3)
    turned = cells[:, :, order].reshape(pixels.shape).repeat(2, axis=0)  # twice as high: another scale for x and y
    source = ImageRef("s", (256, 256), render=lambda: pixels)
    target = ImageRef("t", (512, 256), render=lambda: turned)
    points = np.array([[16 * x + 7.5, 16 * y + 7.5] for x, y in ((0, 0), (3, 9), (12, 5), (15, 15))])
    columns = [int(np.flatnonzero(order == int(x // 16))[0]) for x in points[:, 0]]
    truth = np.stack([[16 * column + 7.5 for column in columns], 2 * (points[:, 1] + 0.5) - 0.5], axis=1)
    pair = Pair("p", "c", source, target, points, truth)
    (found,) = predicted(color_model, [pair], "paper-256@256", localizer=localizer)
    np.testing.assert_allclose(found.predicted, truth, atol=0.1)


@pytest.mark.parametrize("localizer", ["kernel-soft-argmax", "soft-argmax"])
def test_the_evaluation_temperature_divides_the_scores_once_more(model: SimSC, test_pairs, localizer: str) -> None:
    both = predicted(model, test_pairs, localizer=localizer, temperature=0.1, beta_eval=0.2)
    joined = predicted(model, test_pairs, localizer=localizer, temperature=0.02)
    plain = predicted(model, test_pairs, localizer=localizer, temperature=0.1)
    for one, other, third in zip(both, joined, plain, strict=True):
        np.testing.assert_allclose(one.predicted, other.predicted, atol=1e-2)
        np.testing.assert_allclose(one.confidence, other.confidence, atol=1e-4)
        assert np.abs(one.predicted - third.predicted).max() > 0.1


def test_each_image_is_encoded_once(model: SimSC, test_pairs, monkeypatch) -> None:
    seen = []
    trunk = model.trunk
    monkeypatch.setattr(model, "trunk", lambda images: seen.append(len(images)) or trunk(images))
    predicted(model, test_pairs)
    assert sum(seen) == 6


def test_blocks_keep_to_the_number_of_images(test_pairs) -> None:
    blocks = list(plan_blocks(test_pairs, 3))
    assert sorted(index for _, members in blocks for index in members) == list(range(len(test_pairs)))
    assert all(len(images) <= 3 for images, _ in blocks)


def test_folding_changes_nothing_that_can_be_seen(test_pairs) -> None:
    plain = build_model({"backbone": "resnet50.v1_in1k"}, weights="random").eval()
    expected = predicted(plain, test_pairs)
    folded = predicted(prepare_for_inference(plain), test_pairs)
    for one, other in zip(expected, folded, strict=True):
        np.testing.assert_allclose(one.predicted, other.predicted, atol=1e-2)


@pytest.mark.parametrize("protocol", ["square-256@64", "original", "cats-256@64", "geoaware@64", "dift@64"])
def test_every_protocol_evaluates(model: SimSC, test_pairs, protocol: str) -> None:
    found = predicted(model, test_pairs[:2], protocol)
    result = score(found, find_protocol(protocol), "img")
    assert result.protocol == protocol
    swapped = protocol.startswith("cats")
    assert found[0].target == (test_pairs[0].source.key if swapped else test_pairs[0].target.key)


def test_predictions_survive_the_file_and_score_the_same(model: SimSC, test_pairs, tmp_path: Path) -> None:
    found = predicted(model, test_pairs)
    protocol = find_protocol("paper-256@64")
    write_predictions(tmp_path / "p.jsonl", found)
    again = read_predictions(tmp_path / "p.jsonl")
    assert score(again, protocol, "img") == score(found, protocol, "img")
    figures = score(found, protocol, "img")
    assert Score.from_dict(json.loads(json.dumps(figures.to_dict()))) == figures
    with pytest.raises(DataError, match="do not say their threshold"):
        stated_rules(again)
    assert stated_rules(again, "original", "kps") == ("original", "kps")


def test_stretched_pixels_count_only_where_distances_are_measured_in_the_square() -> None:
    """A target four times as wide as high: 12 px of height are 24 of 256 in the square, 12 of 512 in the original."""
    target = np.array([[100.0, 60.0], [300.0, 60.0]])
    off = Prediction(
        "p", "c", "a", "b", target, target, target + np.diag([12.0, 12.0])[::-1], np.ones(2), 0.1,
        source_size=(128, 512), target_size=(128, 512),
    )  # fmt: skip
    assert score([off], find_protocol("paper-256"), "img").per_point[0.05] == 50.0
    assert score([off], find_protocol("square-256"), "img").per_point[0.05] == 100.0


def test_the_nine_fields_are_enough_to_be_scored(tmp_path: Path) -> None:
    line = {
        "pair": "p", "category": "c", "source": "a", "target": "b", "source_points": [[0, 0], [1, 1]],
        "target_points": [[0, 0], [100, 0]], "predicted": [[0, 4], [100, 6]], "confidence": [1, 1], "temperature": 0.1,
    }  # fmt: skip
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(line))
    assert score(read_predictions(path), find_protocol("original"), "kps").per_point[0.05] == 50.0
    with pytest.raises(DataError, match="target_size"):
        score(read_predictions(path), find_protocol("paper-256"), "kps")
    with pytest.raises(DataError, match="no target box"):
        score(read_predictions(path), find_protocol("original"), "bbox")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no predictions"),
        ("{", "line 1: not valid JSON"),
        ("[]", "not an object"),
        ("{}", "missing field 'pair'"),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        read_predictions(tmp_path / "p.jsonl")


def gradients(model: SimSC, objective: PairObjective, encoder: ImageEncoder, batch) -> tuple[float, list]:
    model.zero_grad(set_to_none=True)
    loss = objective(encoder.states(batch.images), (64, 64), batch).total
    loss.backward()
    return loss.item(), [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("disk", [False, True])
def test_the_cache_gives_equal_loss_and_gradients(tiny_pairs, tmp_path: Path, disk: bool) -> None:
    model = build_model({"backbone": "resnet50.v1_in1k", "trainable": "last-block"}, weights="random").train()
    protocol = find_protocol("paper-256", 64)
    cache = TrunkCache("float32", tmp_path if disk else None, "f")
    plain, cached = ImageEncoder(model, protocol), ImageEncoder(model, protocol, cache)
    batch = collate(tiny_pairs[:4], plain.frame)
    objective = PairObjective(model, Config(image_size=64))
    loss, expected = gradients(model, objective, plain, batch)
    for _ in range(2):  # computed, then read
        again, found = gradients(model, objective, cached, batch)
        assert again == pytest.approx(loss, abs=1e-6)
        assert max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True)) <= 1e-6


def test_shared_images_give_the_gradients_of_separate_ones(tiny_pairs) -> None:
    model = build_model({"backbone": "resnet50.v1_in1k", "trainable": "last-block"}, weights="random").train()
    encoder = ImageEncoder(model, find_protocol("paper-256", 64))
    objective = PairObjective(model, Config(image_size=64))
    pairs = tiny_pairs[:2]  # one pair in both orders: two images
    together = collate(pairs, encoder.frame)
    assert len(together.images) == 2
    loss, shared = gradients(model, objective, encoder, together)
    apart = [gradients(model, objective, encoder, collate([pair], encoder.frame)) for pair in pairs]
    assert loss == pytest.approx(sum(value for value, _ in apart), rel=1e-5)
    for whole, one, two in zip(shared, apart[0][1], apart[1][1], strict=True):
        torch.testing.assert_close(whole, one + two, rtol=1e-3, atol=1e-5)


def test_a_cache_on_disk_tells_mirrored_images_and_input_sizes_apart(model: SimSC, tiny_pairs, tmp_path: Path) -> None:
    plain = tiny_pairs[0].source
    mirrored = replace(plain, key=f"{plain.key}~flip", flip=True)
    for side in (64, 96):
        for ref in (plain, mirrored):
            cache = choose_cache("disk", "float32", model, side, 1, tmp_path)
            encoder = ImageEncoder(model, find_protocol("paper-256", side), cache)
            expected = ImageEncoder(model, encoder.protocol).states([ref])
            for found, wanted in zip(encoder.states([ref]), expected, strict=True):
                torch.testing.assert_close(found, wanted)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 4


def test_a_cache_does_not_wait_for_the_disk(model: SimSC, tiny_pairs, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("a state that can be computed again was waited for"))
    cache = TrunkCache("float32", tmp_path, "f")
    ImageEncoder(model, find_protocol("paper-256", 64), cache).states([tiny_pairs[0].source])
    assert tiny_pairs[0].source in cache


def test_a_cache_knows_its_limits(model: SimSC, tmp_path: Path) -> None:
    assert choose_cache("auto", "float32", model, 64, 10, tmp_path).folder is None
    assert choose_cache("auto", "float32", model, 64, 10**9, tmp_path).folder is not None
    assert choose_cache("auto", "float32", model, 64, 10, tmp_path, shared=True).folder is not None
    model.set_trainable("all")
    try:
        assert choose_cache("auto", "float32", model, 64, 10, tmp_path) is None
        with pytest.raises(ConfigError, match="frozen trunk"):
            choose_cache("memory", "float32", model, 64, 10, tmp_path)
    finally:
        model.set_trainable("last-block")


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "without a checksum"])
def test_a_damaged_entry_of_the_cache_is_computed_again(tmp_path: Path, damage: str) -> None:
    from safetensors.torch import load_file, save_file

    ref = ImageRef("a", (4, 4), render=lambda: np.zeros((4, 4, 3), np.uint8))
    TrunkCache("float32", tmp_path, "f").put(ref, (torch.arange(8.0),))
    (file,) = tmp_path.rglob("*.safetensors")
    assert ref in TrunkCache("float32", tmp_path, "f")
    content = bytearray(file.read_bytes())
    content[-3] ^= 0xFF
    if damage == "without a checksum":
        save_file(load_file(file), file)
    else:
        file.write_bytes({"flipped": bytes(content), "cut": bytes(content[:-5]), "empty": b""}[damage])
    cache = TrunkCache("float32", tmp_path, "f")
    assert ref not in cache
    assert not file.exists()
    cache.put(ref, (torch.ones(8),))
    assert cache.get([ref])[0].tolist() == [[1.0] * 8]


def _opposite_pair() -> tuple[Pair, np.ndarray]:
    """An image of cells whose halves differ, and the same in a mirror."""
    pixels = np.random.default_rng(3).integers(0, 256, (16, 32, 3), dtype=np.uint8).repeat(16, axis=0).repeat(8, axis=1)
    points = np.array([[7.5, 7.5], [39.5, 23.5], [247.5, 135.5]])
    source = ImageRef("s", (256, 256), render=lambda: pixels)
    target = ImageRef("t", (256, 256), render=lambda: np.ascontiguousarray(pixels[:, ::-1]))
    opposite = points * [-1, 1] + [255, 0]
    return Pair("opposite", "cell", source, target, points, opposite), opposite


@pytest.mark.parametrize("flip", [False, True])
def test_opposite_views_are_matched_in_a_mirror(sided_model: SimSC, flip: bool, tmp_path: Path) -> None:
    pair, opposite = _opposite_pair()
    same = replace(pair, name="same", target=pair.source, target_points=pair.source_points)
    plain, automatic, always = (
        predicted(sided_model, [pair, same], "paper-256", mirror=mirror, flip=flip, localizer="argmax")
        for mirror in ("no", "auto", "yes")
    )
    assert [[each.mirrored for each in found] for found in (plain, automatic, always)] == [
        [False, False],
        [True, False],
        [True, True],
    ]
    np.testing.assert_allclose(automatic[0].predicted, opposite, atol=1e-3)
    np.testing.assert_allclose(automatic[1].predicted, same.target_points, atol=1e-3)
    np.testing.assert_array_equal(automatic[0].source_points, pair.source_points)
    assert np.abs(plain[0].predicted - opposite).max() > 16
    write_predictions(tmp_path / "found.jsonl", automatic)
    assert [each.mirrored for each in read_predictions(tmp_path / "found.jsonl")] == [True, False]


def test_a_misspelt_mirror_is_refused(model: SimSC) -> None:
    with pytest.raises(ConfigError, match=r"mirror.*auto"):
        Evaluator(ImageEncoder(model, find_protocol("paper-256@64")), mirror="perhaps")
