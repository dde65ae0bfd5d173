"""Users' own files: the complete examples of docs/data.md, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from simsc.data.pairing import draw_pairs
from simsc.data.records import Annotated, ImageRef
from simsc.data.sources import load_objects, load_pairs
from simsc.errors import DataError

DOCS = Path(__file__).parents[2] / "docs/data.md"


def example(language: str, name: str) -> str:
    """A code block of the documentation that starts with ```language name."""
    found = re.search(rf"```{language} {name}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"docs/data.md has no block {language} {name}"
    return found.group(1)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for name in ("red.jpg", "blue.png", "images/robin.jpg", "images/wren.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (100, 80)).save(tmp_path / name)
    return tmp_path


def write_pairs(folder: Path, *pairs: Any, **fields: Any) -> Path:
    path = folder / "pairs.json"
    path.write_text(json.dumps({"pairs": pairs, **fields}))
    return path


def one_pair(source: Any, target: Any, **fields: Any) -> dict[str, Any]:
    return {
        "source": {"image": "red.jpg", "points": source, **fields},
        "target": {"image": "blue.png", "points": target, **fields},
    }


def test_documented_json(images: Path) -> None:
    (images / "test.json").write_text(example("json", "pairs"))
    first, second = load_pairs("pairs", images)
    assert first.name == "first"
    assert first.source_points.tolist() == [[12, 30], [50, 8.5]]
    assert first.target_box is not None
    assert first.target_box.tolist() == [10, 4, 85, 72]
    assert second.point_names == ("handle", "rim")
    assert second.target_points.tolist() == [[12, 30], [50, 8.5]]
    assert second.name == "mug/blue.png-red.jpg"


def test_documented_csv(images: Path) -> None:
    (images / "test.csv").write_text(example("csv", "pairs"))
    first, second = load_pairs("pairs", images)
    assert first.source_points.tolist() == [[12, 30], [50, 8.5]]
    assert second.source_points.tolist() == [[20, 28], [61, 10]]
    assert second.point_names == ("0", "1")


def test_documented_coco(images: Path) -> None:
    (images / "test.json").write_text(example("json", "coco"))
    (pair,) = load_pairs("coco", images)
    assert pair.category == "bird"
    assert pair.point_names == ("beak", "eye")
    robin = pair.source if "robin" in pair.source.key else pair.target
    assert robin.size == (80, 100)
    by_image = {pair.source.key: pair.source_points, pair.target.key: pair.target_points}
    assert by_image[robin.key].tolist() == [[10, 20], [18, 16]]


def test_single_file_is_a_test_set(images: Path) -> None:
    path = write_pairs(images, one_pair([[1, 1]], [[2, 2]]))
    assert len(load_pairs("pairs", path)) == 1
    with pytest.raises(DataError, match=r"single file is a test set.*train\.json"):
        load_pairs("pairs", path, "train")


def test_files_that_differ_in_their_suffix_have_different_keys(images: Path) -> None:
    Image.new("RGB", (100, 80)).save(images / "red.png")
    path = write_pairs(
        images, {"source": {"image": "red.jpg", "points": [[1, 1]]}, "target": {"image": "red.png", "points": [[1, 1]]}}
    )
    (pair,) = load_pairs("pairs", path)
    assert pair.source.key != pair.target.key


def test_documented_python(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})
    assert capsys.readouterr().out


def test_one_based_file(images: Path) -> None:
    path = write_pairs(images, one_pair([[1, 1]], [[2, 2]], box=[1, 1, 9, 9]), index_base=1)
    (pair,) = load_pairs("pairs", path)
    assert pair.source_points.tolist() == [[0, 0]]
    assert pair.source_box is not None
    assert pair.source_box.tolist() == [0, 0, 8, 8]


def test_same_names_are_numbered(images: Path) -> None:
    path = write_pairs(images, *[one_pair([[1, 1]], [[2, 2]])] * 2)
    assert [pair.name for pair in load_pairs("pairs", path)] == ["object/red.jpg-blue.png", "object/red.jpg-blue.png#2"]


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (one_pair([[1, 1]], [[2, 2], [3, 3]]), "1 source points but 2 target points"),
        (one_pair([], []), "no point is present in both"),
        (one_pair([None], [[1, 2]]), "no point is present in both"),
        (one_pair([[1, 1]], [[float("nan"), 2]]), r"'pairs\[0\].target.points\[0\]\[0\]' is not a finite number"),
        (one_pair([[1, 1]], [[None, 2]]), "is not in the image"),
        (one_pair([[1, 1]], [["a", 2]]), "target.points: expected numbers"),
        (one_pair([[1, 1]], [[1, 2, 3]]), "target.points: expected shape"),
        (one_pair([[1, 1]], [[1, 95]]), "point 0 at x=1, y=95 is not in the image of 100x80 pixels"),
        (one_pair([[1, 1]], {"a": [1, 2]}), "list on both sides or an object on both sides"),
        (one_pair([[1, 1]], [[1, 1]], box=[1, 2]), "box: expected four numbers"),
        (one_pair([[1, 1]], [[1, 1]], box=[9, 9, 1, 1]), "source_box: expected finite x0 <= x1"),
        (one_pair([[1, 1]], [[1, 1]], image=None), "the field 'source.image' is missing"),
        (one_pair([[1, 1]], [[1, 1]], image="no.jpg"), r"no\.jpg: no such image file"),
        (one_pair([[1, 1]], None), "the field 'target.points' is missing"),
        (one_pair(7, 7), "points"),
        ("text", "must be an object"),
        ({}, "the field 'source.points' is missing"),
    ],
)
def test_bad_pairs(images: Path, pair: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        load_pairs("pairs", write_pairs(images, pair))


def test_bad_files(images: Path) -> None:
    for text, words in (("[", "not valid JSON"), ("3", "'pairs' must be a list"), ('{"pairs": []}', "no pairs")):
        (images / "x.json").write_text(text)
        with pytest.raises(DataError, match=words):
            load_pairs("pairs", images / "x.json")
    with pytest.raises(DataError, match="'index_base' must be 0 or 1, got 2"):
        load_pairs("pairs", write_pairs(images, index_base=2))
    (images / "x.csv").write_text("source,target,source_x,source_y,target_x,target_y\nred.jpg,blue.png,1;2,1,1;2,1;2")
    with pytest.raises(DataError, match="line 2: 2 values in source_x but 1 in source_y"):
        load_pairs("pairs", images / "x.csv")


def test_without_root_it_says_what_to_give() -> None:
    with pytest.raises(DataError, match="as --root"):
        load_pairs("pairs")


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("annotations", 0, "category_id"), 9, "annotation 10: 'category_id' 9 is not in 'categories'"),
        (("annotations", 0, "image_id"), 9, "annotation 10: 'image_id' 9 is not in 'images'"),
        (("annotations", 0, "keypoints"), [1, 2, 2], "'keypoints' holds 1 points, its category has 3"),
        (("annotations", 0, "keypoints"), [1, 2], "must be a list of x, y, visibility"),
        (("annotations", 0, "keypoints"), [float("nan"), 2, 2] * 3, "not a finite number"),
        (("annotations", 0, "keypoints"), [1, 2, 2, 900, 2, 2, 0, 0, 0], "is not in the image"),
        (("images", 0, "file_name"), "gone.jpg", r"the image 'gone\.jpg' is in none of"),
        (("images", 0, "file_name"), None, "image 1: the field 'file_name' is missing"),
        (("images",), 3, "'images' must be a list"),
    ],
)
def test_bad_coco(images: Path, place: tuple[Any, ...], value: Any, words: str) -> None:
    content = json.loads(example("json", "coco"))
    part = content
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    (images / "test.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=words):
        load_pairs("coco", images)


def test_coco_draws_a_limited_number_by_seed(images: Path) -> None:
    content = json.loads(example("json", "coco"))
    for number in range(8):
        Image.new("RGB", (100, 80)).save(images / f"images/{number}.png")
        content["images"].append({"id": 100 + number, "file_name": f"{number}.png"})
        content["annotations"].append(
            {"id": 100 + number, "image_id": 100 + number, "category_id": 7, "keypoints": [1, 1, 2] * 3}
        )
    (images / "test.json").write_text(json.dumps(content))
    assert len(load_pairs("coco", images)) == 10 * 9 // 2
    objects = load_objects("coco", images)
    assert len(objects) == 10
    drawn = [draw_pairs(objects, 5, seed=seed) for seed in (1, 1, 2)]
    names = [[pair.name for pair in pairs] for pairs in drawn]
    assert names[0] == names[1] != names[2]
    assert len(set(names[0])) == 5
    assert all(np.isfinite(pair.source_points).all() for pair in drawn[0])


def test_pairs_of_ten_thousand_objects_are_drawn_without_listing_them() -> None:
    point, present = np.zeros((1, 2)), np.ones(1, dtype=bool)
    objects = [Annotated(str(n), "c", ImageRef(str(n), (8, 8)), point, present) for n in range(10_000)]
    first, second = draw_pairs(objects, 50), draw_pairs(objects, 50)
    assert [pair.name for pair in first] == [pair.name for pair in second]
    assert len({frozenset((pair.source.key, pair.target.key)) for pair in first}) == 50


def test_a_list_of_pairs_has_no_objects(images: Path) -> None:
    with pytest.raises(DataError, match="group=2, or key-points in COCO format"):
        load_objects("pairs", write_pairs(images, one_pair([[1, 1]], [[2, 2]])))
