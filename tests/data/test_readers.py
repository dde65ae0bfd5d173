"""Readers of the published layouts, on small copies of them: values, bases, flips, names, and bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image

from simsc.data.catalog import DATASETS
from simsc.data.pairing import draw_pairs
from simsc.data.records import Pair, View
from simsc.data.sources import load_objects, load_pairs
from simsc.errors import DataError


def points(pair: Pair) -> tuple[list[list[float]], list[list[float]]]:
    return pair.source_points.tolist(), pair.target_points.tolist()


class TestPFPascal:
    def test_points_present_in_both_are_kept_and_count_from_zero(self, pfpascal: Path) -> None:
        pair = load_pairs("pfpascal", pfpascal, "train")[0]
        assert points(pair) == ([[0, 0], [99, 79]], [[10, 20], [30, 40]])
        assert pair.point_names == ("0", "2")
        assert pair.category == "cat"
        assert pair.source.key == "JPEGImages/a"
        assert pair.source.size == (80, 100)
        assert pair.source_box is not None
        assert pair.source_box.tolist() == [0, 1, 50, 61]

    def test_repeated_pairs_are_numbered(self, pfpascal: Path) -> None:
        names = [pair.name for pair in load_pairs("pfpascal", pfpascal, "train")]
        assert names == ["cat/a-b", "cat/a-b#2", "cat/b-a|flip"]

    def test_flip_mirrors_both_images(self, pfpascal: Path) -> None:
        pair = load_pairs("pfpascal", pfpascal, "train")[2]
        assert points(pair) == ([[89, 20], [69, 40]], [[99, 0], [0, 79]])
        assert pair.source.flip
        assert pair.target.key == "JPEGImages/a|flip"
        assert pair.source_box is not None
        assert pair.source_box.tolist() == [49, 1, 99, 61]

    def test_flipped_points_name_the_flipped_pixels(self, pfpascal: Path) -> None:
        pixels = np.zeros((80, 100, 3), np.uint8)
        pixels[20, 10] = 255
        Image.fromarray(pixels).save(pfpascal / "PF-dataset-PASCAL/JPEGImages/b.jpg", quality=100)
        pair = load_pairs("pfpascal", pfpascal, "train")[2]
        x, y = pair.source_points[0].astype(int)
        assert pair.source.load()[y, x].min() > 128

    def test_coordinates_of_the_list_are_used(self, pfpascal: Path) -> None:
        pairs = load_pairs("pfpascal", pfpascal, "test")
        assert points(pairs[1])[0] == [[4.5, 4], [5, 5], [6, 6]]
        assert pairs[1].point_names == ("0", "1", "2")

    def test_clean_leaves_out_training_pairs_in_either_order(self, pfpascal: Path) -> None:
        assert [pair.name for pair in load_pairs("pfpascal", pfpascal, "clean")] == ["cat/c-a"]

    def test_unseen_leaves_out_pairs_with_a_training_image(self, pfpascal: Path) -> None:
        with pytest.raises(DataError, match="the split 'unseen' has no pairs"):
            load_pairs("pfpascal", pfpascal, "unseen")
        listed = pfpascal / "image_pairs" / "train_pairs.csv"
        listed.write_text(listed.read_text().replace("a.jpg", "b.jpg"))
        assert [pair.name for pair in load_pairs("pfpascal", pfpascal, "unseen")] == ["cat/c-a"]

    def test_train_all_forms_pairs_of_training_images_but_none_that_is_held_out(self, pfpascal: Path) -> None:
        listed = pfpascal / "image_pairs" / "train_pairs.csv"
        row = listed.read_text().splitlines()[1]
        listed.write_text(listed.read_text() + row.replace("a.jpg", "c.jpg") + "\n")  # c-b; a-c is validation's
        pairs = {pair.name: pair for pair in load_pairs("pfpascal", pfpascal, "train-all")}
        assert set(pairs) == {f"cat/{pair}{flip}" for pair in ("a-b", "b-a", "b-c", "c-b") for flip in ("", "|flip")}
        listed_pairs = load_pairs("pfpascal", pfpascal, "train")
        for pair in (listed_pairs[0], listed_pairs[2]):  # the same points as in the list, plain and mirrored
            formed = pairs[pair.name]
            assert (formed.source, formed.target, formed.point_names) == (pair.source, pair.target, pair.point_names)
            np.testing.assert_array_equal(formed.source_points, pair.source_points)
            np.testing.assert_array_equal(formed.target_points, pair.target_points)

    def test_pairs_drawn_from_the_training_images_are_none_of_validation_or_test(self, pfpascal: Path) -> None:
        listed = pfpascal / "image_pairs" / "train_pairs.csv"
        row = listed.read_text().splitlines()[1]
        listed.write_text(listed.read_text() + row.replace("a.jpg", "c.jpg") + "\n")  # c-b; a-c is validation's
        for split in ("train", "train-all"):
            apart = DATASETS["pfpascal"].kept_apart(pfpascal, split)
            assert frozenset({"JPEGImages/a", "JPEGImages/c"}) in apart
            assert frozenset({"JPEGImages/a", "JPEGImages/b"}) not in apart
        assert not DATASETS["pfpascal"].kept_apart(pfpascal, "test")

    def test_objects_are_the_images_of_the_list(self, pfpascal: Path) -> None:
        a, b = load_objects("pfpascal", pfpascal, "train")
        assert [one.name for one in (a, b)] == ["a", "b"]
        assert b.present.tolist() == [True, False, True]
        assert b.points[2].tolist() == [30, 40]
        mirrored = load_objects("pfpascal", pfpascal, "train-all")[2:]
        assert [one.image.key for one in mirrored] == ["JPEGImages/a|flip", "JPEGImages/b|flip"]
        assert mirrored[1].points[2].tolist() == [69, 40]
        assert [one.name for one in load_objects("pfpascal", pfpascal, "clean")] == ["a", "c"]

    def test_other_layout(self, pfpascal: Path) -> None:
        expected = points(load_pairs("pfpascal", pfpascal, "train")[0])
        lists = pfpascal / "image_pairs"
        (lists / "train_pairs.csv").rename(pfpascal / "trn_pairs.csv")
        (lists / "test_pairs.csv").rename(pfpascal / "test_pairs.csv")
        assert points(load_pairs("pfpascal", pfpascal, "train")[0]) == expected
        assert len(load_pairs("pfpascal", pfpascal, "test")) == 2

    def test_missing_list_says_where_to_put_it(self, pfpascal: Path) -> None:
        (pfpascal / "image_pairs/val_pairs.csv").unlink()
        with pytest.raises(DataError, match=r"list of PF-Pascal val pairs is missing.*image_pairs/val_pairs\.csv"):
            load_pairs("pfpascal", pfpascal, "val")

    @pytest.mark.parametrize(
        ("file", "content", "words"),
        [
            ("PF-dataset-PASCAL/Annotations/cat/a.mat", b"not matlab", r"a\.mat: not a readable MATLAB file"),
            ("PF-dataset-PASCAL/Annotations/cat/a.mat", None, r"a\.mat: the annotation is missing"),
            ("PF-dataset-PASCAL/JPEGImages/a.jpg", b"no jpeg", r"a\.jpg: not an image"),
            ("PF-dataset-PASCAL/JPEGImages/a.jpg", None, r"a\.jpg: no such image file"),
            ("image_pairs/train_pairs.csv", b"source_image,target_image\nx,y\n", "column 'class' is missing"),
            ("image_pairs/train_pairs.csv", b"", "column 'source_image' is missing"),
            (
                "image_pairs/train_pairs.csv",
                b"source_image,target_image,class\na.jpg,b.jpg,21\n",
                "line 2: column 'class' must be 1 to 20, got '21'",
            ),
            (
                "image_pairs/train_pairs.csv",
                b"source_image,target_image,class\na.jpg,b.jpg\n",
                "line 2: column 'class' is empty",
            ),
            (
                "image_pairs/train_pairs.csv",
                b"source_image,target_image,class,XA,YA,XB,YB\na,b,8,1;x,1;2,1;2,1;2\n",
                "column 'XA' must hold numbers",
            ),
            (
                "image_pairs/train_pairs.csv",
                b"source_image,target_image,class,XA,YA,XB,YB\na,b,8,1;2,1,1;2,1;2\n",
                "2 values in XA but 1 in YA",
            ),
            (
                "image_pairs/train_pairs.csv",
                b"source_image,target_image,class,XA,YA,XB,YB\na,b,8,1;900,1;2,1;2,1;2\n",
                "point 1 at x=899, y=1 is not in the image of 100x80",
            ),
        ],
    )
    def test_bad_input(self, pfpascal: Path, file: str, content: bytes | None, words: str) -> None:
        if content is None:
            (pfpascal / file).unlink()
        else:
            (pfpascal / file).write_bytes(content)
        with pytest.raises(DataError, match=words):
            load_pairs("pfpascal", pfpascal, "train")

    def test_no_common_point(self, pfpascal: Path) -> None:
        nothing = np.full((3, 2), np.nan)
        scipy.io.savemat(pfpascal / "PF-dataset-PASCAL/Annotations/cat/a.mat", {"kps": nothing})
        with pytest.raises(DataError, match="no points"):
            load_pairs("pfpascal", pfpascal, "train")

    def test_a_hair_outside_is_kept(self, pfpascal: Path) -> None:
        path = pfpascal / "image_pairs/train_pairs.csv"
        path.write_text("source_image,target_image,class,XA,YA,XB,YB\na,b,8,0.5;101.2,1;2,1;2,1;2\n")
        pair = load_pairs("pfpascal", pfpascal, "train")[0]
        np.testing.assert_allclose(pair.source_points[:, 0], [-0.5, 100.2])


class TestPFWillow:
    def test_all_ordered_pairs_without_a_list(self, pfwillow: Path) -> None:
        pairs = load_pairs("pfwillow", pfwillow)
        assert len(pairs) == 2 + 6
        assert pairs[0].name == "car(G)/000-001"
        assert points(pairs[0])[1][:2] == [[1, 0], [2, 2]]

    def test_list_gives_the_same(self, pfwillow: Path) -> None:
        formed = load_pairs("pfwillow", pfwillow)
        header = ["imageA", "imageB", *(f"{a}{s}{i + 1}" for s in "AB" for a in "XY" for i in range(10))]
        rows = [header]
        for pair in formed:
            sides = (pair.source_points, pair.target_points)
            numbers = [str(value + 1) for side in sides for axis in range(2) for value in side[:, axis]]
            rows.append([f"{pair.source.key}.png", f"{pair.target.key}.png", *numbers])
        (pfwillow / "test_pairs.csv").write_text("\n".join(",".join(row) for row in rows))
        listed = load_pairs("pfwillow", pfwillow)
        assert [pair.name for pair in listed] == [pair.name for pair in formed]
        assert [points(pair) for pair in listed] == [points(pair) for pair in formed]

    def test_wrong_number(self, pfwillow: Path) -> None:
        scipy.io.savemat(pfwillow / "PF-dataset/car(G)/000.mat", {"pts_coord": np.ones((2, 9))})
        with pytest.raises(DataError, match=r"000\.mat: pts_coord must hold 10 points, got 9"):
            load_pairs("pfwillow", pfwillow)


class TestSPair:
    def test_common_points_by_ascending_id(self, spair: Path) -> None:
        first, second = load_pairs("spair", spair, "test")
        assert first.point_names == ("0", "2", "10")
        assert points(first) == ([[1, 2], [3, 4], [5, 6]], [[10, 20], [30, 40], [50, 60]])
        assert second.point_names == ("0", "11")
        assert first.target.key == "JPEGImages/cat/b"
        assert first.target_box is not None
        assert first.target_box.tolist() == [1, 2, 51, 62]

    def test_objects_keep_their_viewpoint(self, spair: Path) -> None:
        path = spair / "ImageAnnotation/cat/a.json"
        facts = {"azimuth_id": 3, "pose": "Left", "truncated": 1, "occluded": 0}
        path.write_text(json.dumps(json.loads(path.read_text()) | facts))
        first, second, third = load_objects("spair", spair, "test")
        assert first.view == View(3, "Left", truncated=True, occluded=False)
        assert second.view == View()
        assert [one.name for one in (first, second, third)] == ["a", "b", "c"]
        assert np.flatnonzero(second.present).tolist() == [0, 2, 10, 11]
        assert load_pairs("spair", spair, "test")[0].source_view == first.view

    def test_pair_annotation_comes_first(self, spair: Path) -> None:
        content = {"src_imsize": [100, 80, 3], "trg_imsize": [100, 80, 3], "kps_ids": ["2"]}
        content |= {"src_kps": [[4, 4]], "trg_kps": [[6, 7]], "src_bndbox": [0, 0, 9, 9], "trg_bndbox": [1, 1, 8, 8]}
        folder = spair / "PairAnnotation/test"
        folder.mkdir(parents=True)
        for line in ("000001-a-b:cat", "000002-b-c:cat"):
            (folder / f"{line}.json").write_text(json.dumps(content))
        pair = load_pairs("spair", spair, "test")[0]
        assert points(pair) == ([[4, 4]], [[6, 7]])
        assert pair.point_names == ("2",)
        (spair / "Layout/large/test.txt").unlink()
        assert len(load_pairs("spair", spair, "test")) == 2

    def test_clean_needs_pfpascal(self, spair: Path, pfpascal: Path) -> None:
        (pfpascal / "image_pairs/train_pairs.csv").write_text("source_image,target_image,class\na.jpg,x.jpg,8\n")
        assert [pair.name for pair in load_pairs("spair", spair, "clean")] == ["000002-b-c:cat"]

    def test_clean_without_pfpascal(self, spair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable in ("SIMSC_HOME", "SIMSC_SHARED"):
            monkeypatch.setenv(variable, str(spair / "nowhere"))
        with pytest.raises(DataError, match="list of training pairs is neither beside"):
            load_pairs("spair", spair, "clean")

    def test_missing_split(self, spair: Path) -> None:
        with pytest.raises(DataError, match=r"Layout/large/trn\.txt is missing"):
            load_pairs("spair", spair, "train")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"kps": None}, r"a\.json: the field 'kps' is missing"),
            ({"image_width": None}, r"a\.json: the field 'image_width' is missing"),
            ({"kps": {"0": [1, None]}}, "point 0 at x=1, y=nan|expected numbers"),
            ({"kps": {"0": [1]}}, "expected shape"),
            ({"kps": {"0": [1, 500]}}, "is not in the image of 100x80"),
        ],
    )
    def test_bad_annotation(self, spair: Path, change: dict[str, object], words: str) -> None:
        path = spair / "ImageAnnotation/cat/a.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        with pytest.raises(DataError, match=words):
            load_pairs("spair", spair, "test")

    def test_broken_json(self, spair: Path) -> None:
        (spair / "ImageAnnotation/cat/a.json").write_text('{"kps": ')
        with pytest.raises(DataError, match=r"a\.json: not valid JSON"):
            load_pairs("spair", spair, "test")

    def test_size_that_disagrees_is_noticed_on_loading(self, spair: Path) -> None:
        Image.new("RGB", (90, 80)).save(spair / "JPEGImages/cat/a.jpg")
        with pytest.raises(DataError, match=r"a\.jpg: the image is 90x80 but its annotation says 100x80"):
            load_pairs("spair", spair, "test")[0].source.load()


class TestAP10K:
    def test_labelled_in_both(self, ap10k: Path) -> None:
        pair = load_pairs("ap10k", ap10k)[0]
        assert points(pair)[0] == [[1, 2], [2, 3], [3, 4]]
        assert pair.point_names == ("left eye", "right eye", "nose")
        assert pair.category == "bear"
        assert pair.source_box is not None
        assert pair.source_box.tolist() == [10, 20, 40, 60]
        assert pair.source.key == "JPEGImages/Ursidae/bear/000000000001"

    def test_cross_family(self, ap10k: Path) -> None:
        assert load_pairs("ap10k", ap10k, "test-cross-family")[0].category == "all"

    def test_missing_pairs_name_the_notebook(self, ap10k: Path) -> None:
        with pytest.raises(DataError, match=r"prepare_ap10k\.ipynb"):
            load_pairs("ap10k", ap10k, "train")


class TestCUB:
    def test_pairs_within_a_species_of_a_split(self, cub: Path) -> None:
        train = load_pairs("cub", cub, "train")
        assert len(train) == 10  # all pairs of five; the single bird of the other species has no partner
        assert {pair.category for pair in train} == {"001.Albatross"}
        assert len(load_pairs("cub", cub, "test")) == 3

    def test_parts_visible_in_both(self, cub: Path) -> None:
        pair = load_pairs("cub", cub, "train")[0]
        numbers = [int(ref.key[-4:]) for ref in (pair.source, pair.target)]
        assert len(pair.source_points) == 13
        assert not {f"left part {number}" for number in numbers} & set(pair.point_names)
        first = next(part for part in range(1, 16) if part not in numbers)
        assert pair.source_points[0].tolist() == [first + numbers[0], first]

    def test_seed_and_number(self, cub: Path) -> None:
        birds = load_objects("cub", cub, "train")
        draws = [[pair.name for pair in draw_pairs(birds, 4, seed)] for seed in (0, 0, 1)]
        assert draws[0] == draws[1] != draws[2]
        assert len(draws[0]) == 4

    def test_bad_line(self, cub: Path) -> None:
        (cub / "images.txt").write_text("one two three\n")
        with pytest.raises(DataError, match=r"images\.txt, line 1: expected an id and 1 columns"):
            load_pairs("cub", cub, "train")


@pytest.mark.parametrize(
    "listed", ["/dev/zero", "/etc/passwd", "a/../../../../etc/passwd", "..", "C:\\Windows\\a.json"]
)
def test_ap10k_stays_below_its_root(ap10k: Path, listed: str) -> None:
    pair = next((ap10k / "PairAnnotation/test").glob("*.json"))
    pair.write_text(json.dumps({"src_json_path": listed, "trg_json_path": listed}))
    with pytest.raises(DataError, match=r"src_json_path.*would leave the folder"):
        load_pairs("ap10k", ap10k)


def test_ap10k_reads_regular_files_only(ap10k: Path) -> None:
    file = next((ap10k / "ImageAnnotation").rglob("*.json"))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(DataError, match="not a regular file"):
        load_pairs("ap10k", ap10k)


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("image_class_labels.txt", "1 x\n", "the species of image 1 must be a number"),
        ("image_class_labels.txt", "1 7\n", "has no species|is not listed"),
        ("image_class_labels.txt", "\u00b2 1\n", "expected an id"),
        ("images.txt", "".join(f"{number} /etc/passwd\n" for number in range(1, 11)), "would leave the folder"),
        ("parts/parts.txt", "1 beak\n", "expected 15 parts, got 1"),
        ("parts/part_locs.txt", "nan nan nan nan nan\n" * 15, "15 lines of five numbers"),
    ],
)
def test_cub_tables(cub: Path, file: str, text: str, words: str) -> None:
    (cub / file).write_text(text)
    with pytest.raises(DataError, match=words):
        load_pairs("cub", cub)


@pytest.mark.parametrize("line", ["1-../a-b:cat", "1-a-b:..", "1-a-b:/etc"])
def test_spair_stays_below_its_root(spair: Path, line: str) -> None:
    (spair / "Layout/large/test.txt").write_text(line + "\n")
    with pytest.raises(DataError, match="not of the form"):
        load_pairs("spair", spair)


def test_spair_images_have_a_size(spair: Path) -> None:
    path = spair / "ImageAnnotation/cat/a.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "image_width": 0}))
    with pytest.raises(DataError, match="must be above 0"):
        load_pairs("spair", spair)
