"""Labels carried over to images whose true correspondence is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from simsc.errors import ConfigError, DataError
from simsc.matcher import Matcher
from simsc.transfer import Instance, read_instances, transfer
from simsc.transfer.areas import LEAST, box_iou, enclosing_box, move_area
from simsc.transfer.instances import Labelled, mask_to_runs, runs_to_mask
from simsc.transfer.run import Journal, find_images

SHIFT = (-48, -32)  # where a pixel of the source lies in the target, see `scene`
KEYPOINTS = {"nose": [103.5, 87.5], "ear": [151.5, 119.5]}
BOX = [96, 80, 176, 144]


@pytest.fixture(scope="module")
def matcher(color_model):
    return Matcher(color_model, device="cpu")


@pytest.fixture
def scene(tmp_path, mosaic):
    """A labelled image, and a folder with two shifted views and a file that is no image."""
    picture = mosaic(20, 20)
    Image.fromarray(picture[:256, :256]).save(tmp_path / "source.png")
    mask = np.zeros((256, 256), np.uint8)
    mask[80:144, 96:176] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    labels = {"category": "cat", "keypoints": KEYPOINTS, "box": BOX, "mask": "mask.png"}
    (tmp_path / "source.json").write_text(json.dumps(labels))
    (tmp_path / "photos" / "more").mkdir(parents=True)
    for name in ("a.png", "more/b.png"):
        Image.fromarray(picture[32:288, 48:304]).save(tmp_path / "photos" / name)
    (tmp_path / "photos" / "bad.jpg").write_bytes(b"not an image")
    return tmp_path


def run(matcher, scene, **options):
    return transfer(matcher, scene / "source.png", scene / "source.json", [scene / "photos"], scene / "out", **options)


def test_coco_labels_are_shifted_and_a_bad_image_is_listed(matcher, scene):
    outcome = run(matcher, scene)
    assert outcome.done == 2
    assert list(outcome.failed) == [str(scene / "photos" / "bad.jpg")]
    found = json.loads((scene / "out").read_text())
    assert found["categories"][0]["keypoints"] == ["nose", "ear"]
    assert len(found["annotations"]) == 2
    annotation = found["annotations"][0]
    points = np.array(annotation["keypoints"]).reshape(2, 3)
    np.testing.assert_allclose(points[:, :2], np.array(list(KEYPOINTS.values())) + SHIFT, atol=0.1)
    assert (points[:, 2] == 1).all()  # a model without a calibration is never sure
    np.testing.assert_allclose(annotation["bbox"], [48, 48, 80, 64], atol=8)  # half a cell
    expected = np.zeros((256, 256), bool)
    expected[48:112, 48:128] = True
    moved = runs_to_mask(annotation["segmentation"])
    assert (moved & expected).sum() / (moved | expected).sum() > 0.8
    assert 0.9 < annotation["score"] <= 1


def test_labelme_files_can_be_read_back(matcher, scene):
    outcome = run(matcher, scene, form="labelme")
    assert len(outcome.written) == 2
    (thing,) = read_instances(outcome.written[0], "a.png", (256, 256))
    assert thing.category == "cat"
    np.testing.assert_allclose(thing.keypoints["ear"], np.array(KEYPOINTS["ear"]) + SHIFT, atol=0.1)
    np.testing.assert_allclose(thing.box, [48, 48, 128, 112], atol=8)
    assert thing.mask.sum() > 3000


def test_coco_files_can_be_read_back(matcher, scene):
    run(matcher, scene)
    (thing,) = read_instances(scene / "out", "b.png", (256, 256))
    assert (thing.keypoints, thing.doubtful) == ({}, ("nose", "ear"))  # a model without a calibration is never sure
    assert thing.mask.shape == (256, 256)
    reviewed = json.loads((scene / "out").read_text())
    for annotation in reviewed["annotations"]:
        annotation["keypoints"][2::3] = [2, 2]
    (scene / "out").write_text(json.dumps(reviewed))
    (thing,) = read_instances(scene / "out", "b.png", (256, 256))
    np.testing.assert_allclose(thing.keypoints["nose"], np.array(KEYPOINTS["nose"]) + SHIFT, atol=0.1)


def test_a_second_transfer_finds_the_doubtful_anew_and_keeps_what_a_person_has_settled(matcher, scene):
    (scene / "photos" / "bad.jpg").unlink()
    transfer(matcher, scene / "source.png", None, [scene / "source.png", scene / "photos"], scene / "labels.json")
    labels = json.loads((scene / "labels.json").read_text())
    first, second, _ = labels["annotations"]
    assert first["keypoints"][2::3] == [2, 2]
    second["keypoints"][:6] = [7.0, 8.0, 2, 1.0, 1.0, 1]  # the nose was placed by hand, the ear is a bad guess
    (scene / "labels.json").write_text(json.dumps(labels))
    outcome = transfer(matcher, scene / "labels.json", None, [scene / "photos"], scene / "again.json")
    (moved,) = outcome.images[0].found
    assert moved.instance.keypoints["nose"] == (7.0, 8.0)
    assert moved.keypoint_status == {"nose": "sure", "ear": "unsure"}
    np.testing.assert_allclose(moved.instance.keypoints["ear"], np.array(KEYPOINTS["ear"]) + SHIFT, atol=0.1)


def test_an_interrupted_transfer_goes_on_where_it_stopped(matcher, scene):
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(matcher, scene, batch_size=1, progress=stop)
    journal = scene / "out.journal.jsonl"
    with journal.open("a") as stream:
        stream.write('{"image": "cut o')  # a line that was being written
    (scene / "photos" / "bad.jpg").unlink()
    outcome = run(matcher, scene)
    assert (outcome.done, outcome.resumed, outcome.failed) == (2, 1, {})
    assert not journal.exists()


def test_several_processes_and_a_store_find_the_same_labels(matcher, scene, monkeypatch):
    def labels(**options):
        outcome = run(matcher, scene, **options)
        assert list(outcome.failed) == [str(scene / "photos" / "bad.jpg")]
        (scene / "out.journal.jsonl").unlink()
        things = [moved.instance for image in outcome.images for moved in image.found]
        return np.array([[*thing.keypoints.values(), thing.box[:2], thing.box[2:]] for thing in things])

    alone = labels()
    np.testing.assert_allclose(labels(workers=2, batch_size=1), alone, atol=0.05)
    np.testing.assert_allclose(labels(store=scene / "store"), alone, atol=0.05)
    seen = []
    encode = matcher.encode_many
    monkeypatch.setattr(matcher, "encode_many", lambda images, **_: seen.extend(images) or encode(images, **_))
    np.testing.assert_allclose(labels(store=scene / "store"), alone, atol=0.05)
    assert len(seen) == 1  # the source: everything else was in the store


def test_a_journal_survives_a_process_that_is_stopped_while_it_is_rewritten(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    with Journal(path, {"a": 1}) as journal:
        for name in ("one.png", "two.png"):
            journal.add(Labelled(name, (4, 5), []))

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("simsc.transfer.run._to_dict", stopped)
        with pytest.raises(KeyboardInterrupt), Journal(path, {"a": 1}):
            pass
    with Journal(path, {"a": 1}) as journal:
        assert list(journal.done) == ["one.png", "two.png"]


def test_a_journal_of_other_settings_is_refused(matcher, scene):
    run(matcher, scene)  # one image fails, so the journal stays
    with pytest.raises(ConfigError, match="min_confidence"):
        run(matcher, scene, min_confidence=0.5)


def test_unmatched_keypoints_have_visibility_zero(matcher, scene):
    run(matcher, scene, min_confidence=1.1)
    annotation = json.loads((scene / "out").read_text())["annotations"][0]
    assert annotation["keypoints"] == [0] * 6
    assert annotation["num_keypoints"] == 0
    assert min(annotation["keypoint_scores"]) > 0.9


def test_labelme_shapes_of_one_group_are_one_thing(tmp_path):
    shapes = [
        {"label": "eye", "points": [[3, 4]], "shape_type": "point", "group_id": 1},
        {"label": "cat", "points": [[9, 8], [1, 2]], "shape_type": "rectangle", "group_id": 1},
        {"label": "dog", "points": [[0, 0], [4, 0], [4, 4], [0, 4]], "shape_type": "polygon", "group_id": None},
        {"label": "tail", "points": [[5, 5]], "shape_type": "point", "group_id": None},
    ]
    (tmp_path / "l.json").write_text(json.dumps({"shapes": shapes}))
    cat, dog, loose = read_instances(tmp_path / "l.json", "x.jpg", (10, 10))
    assert cat == Instance("cat", {"eye": (3.0, 4.0)}, (1.0, 2.0, 9.0, 8.0))
    assert dog.category == "dog"
    assert dog.mask.sum() == 25
    assert loose.keypoints == {"tail": (5.0, 5.0)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not of the form"),
        ('{"keypoints": {"nose": [NaN, 1]}}', "'keypoints.nose.0.' is not a finite number"),
        ('{"keypoints": {"nose": [1e9, 1]}}', "far outside of the image"),
        ('{"box": [0, 0, 1e300, 5]}', "far outside of the image"),
        ('{"shapes": [{"label": 7, "points": [[0, 0], [5, 5]], "shape_type": "rectangle"}]}', "must be texts"),
        ('{"images": [], "categories": [], "annotations": 5}', "not of the form"),
        (
            '{"images": [{"id": 1, "file_name": "x.jpg"}], "categories": [{"id": 1, "name": "a"}], "annotations": '
            '[{"image_id": 1, "category_id": 1, "segmentation": {"size": [99999, 99999], "counts": [9999800001]}}]}',
            "run lengths",
        ),
        ('{"shapes": []}', "holds no"),
        ('{"keypoint": {}}', "unknown key 'keypoint'"),
        ('{"shapes": [{"shape_type": "circle", "points": []}]}', "circle"),
        ('{"keypoints": {"nose": [1]}}', "not of the form"),
    ],
)
def test_bad_annotations_are_named(tmp_path, text, message):
    (tmp_path / "l.json").write_text(text)
    with pytest.raises(DataError, match=message):
        read_instances(tmp_path / "l.json", "x.jpg", (10, 10))


@pytest.mark.parametrize(
    "labels", [{"keypoints": {"nose": [300, 2]}}, {"box": [300, 0, 310, 5]}, {"box": [5, 5, 5, 9]}]
)
def test_labels_outside_of_the_image_are_refused(matcher, scene, labels):
    (scene / "source.json").write_text(json.dumps(labels))
    with pytest.raises(DataError, match="outside"):
        run(matcher, scene)


def test_targets_are_found_once_and_absence_is_named(scene):
    photos = scene / "photos"
    assert find_images([photos / "a.png", photos]) == [photos / "a.png", photos / "bad.jpg", photos / "more" / "b.png"]
    (scene / "empty").mkdir()
    with pytest.raises(DataError, match="no images found"):
        find_images([scene / "empty"])


@given(st.integers(0, 20), st.integers(0, 10), st.integers(2, 12))
def test_a_box_encloses_its_evidence_despite_stray_places(left, top, side):
    evidence = np.zeros((40, 40))
    evidence[top : top + side, left : left + side] = 1
    exact = enclosing_box(evidence, (400, 400), tail=1e-9)
    np.testing.assert_allclose(exact, np.array([left, top, left + side, top + side]) * 10, atol=1e-6)
    evidence[39, 39] = 0.02 * evidence.sum()
    np.testing.assert_allclose(enclosing_box(evidence, (400, 400)), exact, atol=10 * side * 0.05)


@given(arrays.arrays(bool, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6)))
def test_run_lengths_keep_the_mask(mask):
    np.testing.assert_array_equal(runs_to_mask(mask_to_runs(mask)), mask)


def test_an_annotated_target_keeps_its_own_labels(matcher, scene):
    outcome = transfer(matcher, scene / "source.png", None, [scene / "source.png"], scene / "own.json")
    (moved,) = outcome.images[0].found
    assert {name: list(place) for name, place in moved.instance.keypoints.items()} == KEYPOINTS
    assert moved.score == 1


def test_of_several_sources_the_most_confident_wins_for_each_point(matcher, scene, mosaic):
    """The second source shows only the ear's surroundings; the rest of it is of no use."""
    blank = np.full((256, 256, 3), 128, np.uint8)
    picture = mosaic(20, 20)[:256, :256]
    left, right = blank.copy(), blank.copy()
    left[:, :128], right[:, 128:] = picture[:, :128], picture[:, 128:]
    (scene / "sources").mkdir()
    for name, pixels in (("left", left), ("right", right)):
        Image.fromarray(pixels).save(scene / "sources" / f"{name}.png")
        (scene / "sources" / f"{name}.json").write_text(json.dumps({"category": "cat", "keypoints": KEYPOINTS}))
    (scene / "photos" / "bad.jpg").unlink()
    outcome = transfer(matcher, scene / "sources", None, [scene / "photos"], scene / "both.json")
    (moved,) = outcome.images[0].found
    expected = np.array(list(KEYPOINTS.values())) + SHIFT
    np.testing.assert_allclose(list(moved.instance.keypoints.values()), expected, atol=0.5)


def test_a_photograph_without_labels_is_refused_with_where_they_were_looked_for(matcher, scene):
    photo = scene / "photos" / "alone.png"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(photo)
    with pytest.raises(DataError, match=r"alone.png: has no labels: there is no .*alone.json; .*--annotations"):
        transfer(matcher, photo, None, [photo], scene / "o.json")


def test_a_folder_without_labels_is_refused(matcher, scene):
    with pytest.raises(DataError, match="none of its images has labels"):
        transfer(matcher, scene / "photos", None, [scene / "photos"], scene / "o.json")


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_box_encloses_the_confident_part_of_a_flow(matcher, mosaic, mirrored):
    picture = mosaic(20, 20)
    target = picture[32:288, 48:304]
    flow = matcher.dense(picture[:256, :256], target[:, ::-1].copy() if mirrored else target)
    area = move_area(flow, tuple(map(float, BOX)), None)
    expected = (128, 48, 208, 112) if mirrored else (48, 48, 128, 112)
    assert box_iou(area.box, expected) > 0.75
    assert area.confidence > 0.5


def test_a_box_of_which_nothing_is_found_is_dropped(matcher, mosaic):
    picture = mosaic(20, 20)[:256, :256]
    flow = matcher.dense(picture, np.full((256, 256, 3), 255, np.uint8))
    area = move_area(flow, tuple(map(float, BOX)), None)
    assert area.box is None
    assert area.confidence < LEAST


@pytest.mark.parametrize(
    "line", ['{"image": 5}', "[]", '{"image": "b", "size": [4, "x"], "found": []}', "not JSON", '{"image": "b\\ud800"}',
             '{"image": "b", "size": [4, 5], "found": [{"category": "cat"}]}']
)  # fmt: skip
def test_bad_lines_of_a_journal_are_skipped_and_said(tmp_path, line):
    path = tmp_path / "journal.jsonl"
    with Journal(path, {"a": 1}) as journal:
        journal.add(Labelled("one.png", (4, 5), []))
    with path.open("a") as stream:
        stream.write(line + "\n")
    with Journal(path, {"a": 1}) as journal:
        journal.add(Labelled("two.png", (4, 5), []))
        assert list(journal.done) == ["one.png", "two.png"]
        assert len(journal.skipped) == 1
        assert "line 3" in journal.skipped[0]
    assert len(path.read_text().splitlines()) == 3


def test_a_journal_has_one_owner(tmp_path):
    path = tmp_path / "journal.jsonl"
    program = (
        "import sys; from pathlib import Path; from simsc.transfer.run import Journal\n"
        "with Journal(Path(sys.argv[1]), {}): pass"
    )
    with Journal(path, {}):
        second = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert f"is in use by process {os.getpid()}" in second.stderr
    subprocess.run([sys.executable, "-c", program, path], check=True)


def test_outputs_that_cannot_be_are_refused_before_the_work(matcher, scene):
    (scene / "folder").mkdir()
    (scene / "file").write_text("")
    for out, form, words in (("folder", "coco", "is a folder"), ("file", "labelme", "is a file")):
        with pytest.raises(ConfigError, match=words):
            transfer(matcher, scene / "source.png", scene / "source.json", [scene / "photos"], scene / out, form=form)


def test_labels_say_where_a_mirror_image_was_used(sided_model, tmp_path):
    pixels = np.random.default_rng(3).integers(0, 256, (16, 32, 3), dtype=np.uint8).repeat(16, axis=0).repeat(8, axis=1)
    Image.fromarray(pixels).save(tmp_path / "source.png")
    (tmp_path / "source.json").write_text(json.dumps({"keypoints": KEYPOINTS, "box": BOX}))
    (tmp_path / "photos").mkdir()
    Image.fromarray(np.ascontiguousarray(pixels[:, ::-1])).save(tmp_path / "photos" / "a.png")
    Image.fromarray(pixels).save(tmp_path / "photos" / "b.png")
    run(Matcher(sided_model, device="cpu"), tmp_path, mirror="auto")
    opposite, same = json.loads((tmp_path / "out").read_text())["annotations"]
    points = np.array(opposite["keypoints"]).reshape(2, 3)[:, :2]
    np.testing.assert_allclose(points, [(255 - x, y) for x, y in KEYPOINTS.values()], atol=0.1)
    np.testing.assert_allclose(opposite["bbox"], [256 - 176, 80, 80, 64], atol=8)
    assert opposite["mirrored"] == ["nose", "ear"]
    assert "mirrored" not in same
