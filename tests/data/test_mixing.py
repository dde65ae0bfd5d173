"""Several sources in one run: how they are written, held-out photographs, validation without a split for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from simsc.data.mixing import Material, Opener, SourceSpec, evaluated_images, parse_sources
from simsc.data.photographs import Photographs, voc_id
from simsc.data.records import ImageRef, unique_images
from simsc.errors import ConfigError, DataError
from simsc.files import shared_folder
from simsc.training.presets import load_preset


def test_sources_are_written_with_split_place_and_weight() -> None:
    assert parse_sources("pfpascal, spair/val@2 ,coco:birds/a@b/train.json@0.5") == (
        SourceSpec("pfpascal"),
        SourceSpec("spair", "val", "", 2.0),
        SourceSpec("coco", "", "birds/a@b/train.json", 0.5),
    )
    assert parse_sources("spair/train:/data/spair")[0] == SourceSpec("spair", "train", "/data/spair")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("spairs", "did you mean 'spair'"),
        ("spair@many", "'many' after @ is not a number"),
        ("spair@0", "above 0"),
        ("spair,spair@2", "spair is named twice"),
        ("", "unknown data set ''"),
    ],
)
def test_what_cannot_be_a_source_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_sources(text)


def birds(folder: Path, names: list[str], file: str = "train.json", seed: int = 0) -> Path:
    """A COCO file with an image for each name, all of one category."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    for name in names:
        if not (folder / name).exists():
            Image.fromarray(generator.integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(folder / name)
    content = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
        "categories": [{"id": 1, "name": "bird", "keypoints": ["a", "b"]}],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1, "keypoints": [5, 5, 2, 9 + n % 30, 9, 2]}
            for n in range(len(names))
        ],
    }
    (folder / file).write_text(json.dumps(content))
    return folder


def opened(text: str, root: Path | None = None, **options: str) -> tuple[list[Material], list[str]]:
    opener = Opener(root, **options)
    return opener.open(parse_sources(text), listed=False), opener.notes


def names(material: Material) -> set[str]:
    return {one.image.path.name for one in material.objects if one.image.path}


def test_groups_are_built_around_the_pairs_of_the_source_that_is_named(tmp_path: Path) -> None:
    place = birds(tmp_path / "birds", [f"{n}.png" for n in range(4)]) / "train.json"
    (one, two), _ = opened(f"coco:{place},scenes", anchor_split="scenes/train")
    assert not one.anchors
    assert {pair.source.key.partition("|")[0] for pair in two.anchors} == {"scenes"}


def test_a_source_without_a_validation_split_holds_a_part_out_by_seed(tmp_path: Path) -> None:
    root = birds(tmp_path / "birds", [f"{n}.png" for n in range(40)])
    (first,), notes = opened("coco", root)
    assert notes == ["coco has no validation split: 4 of 40 objects, drawn with seed 0, are held out for validation"]
    held = {ref.key for pair in first.validation for ref in (pair.source, pair.target)}
    assert len(held) == 4
    assert not held & {one.image.key for one in first.objects}
    assert len(first.objects) == 36
    (again,), _ = opened("coco", root)
    assert names(again) == names(first)
    assert names(Opener(root, seed=1).open(parse_sources("coco"), listed=False)[0]) != names(first)
    (file,), _ = opened(f"coco:{root / 'train.json'}")
    assert names(file) == names(first)


def test_a_file_beside_a_validation_file_is_validated_on_that(tmp_path: Path) -> None:
    root = birds(tmp_path / "birds", [f"{n}.png" for n in range(5)])
    birds(root, [f"v{n}.png" for n in range(3)], "val.json")
    for text, place in (("coco", root), (f"coco:{root}", None), (f"coco:{root / 'train.json'}", None)):
        (found,), notes = opened(text, place)
        assert (len(found.objects), len(found.validation), notes) == (5, 3, [])


def test_a_file_of_any_name_can_be_trained_on(tmp_path: Path) -> None:
    root = birds(tmp_path / "birds", [f"{n}.png" for n in range(6)], "labels.json")
    (found,), notes = opened(f"coco:{root / 'labels.json'}")
    assert (len(found.objects), len(found.validation)) == (4, 1)
    assert "2 of 6 objects" in notes[0]


def test_three_images_are_too_few_to_hold_some_out(tmp_path: Path) -> None:
    root = birds(tmp_path / "birds", [f"{n}.png" for n in range(3)])
    with pytest.raises(DataError, match="too few objects to hold some out; give a folder with train and val files"):
        opened("coco", root)


def test_listed_pairs_hold_out_pairs_in_both_orders(tiny_root: Path, tmp_path: Path) -> None:
    for file in tiny_root.iterdir():
        if file.name != "val.json":
            shutil.copy(file, tmp_path)
    opener = Opener(tmp_path)
    (found,) = opener.open(parse_sources("pairs"), listed=True)
    assert "4 of 8 pairs" in opener.notes[0]
    held = {frozenset((pair.source.key, pair.target.key)) for pair in found.validation}
    assert len(held) == 2
    assert not held & {frozenset((pair.source.key, pair.target.key)) for pair in found.pairs}


def test_keys_of_two_sources_never_collide(tmp_path: Path) -> None:
    for place in ("x", "y"):
        birds(tmp_path / place / "birds", [f"{n}.png" for n in range(6)], seed=ord(place))
    text = ",".join(f"coco:{tmp_path / place / 'birds'}" for place in ("x", "y"))
    first, second = opened(text)[0]
    keys = [{one.image.key for one in source.objects} for source in (first, second)]
    assert not keys[0] & keys[1]
    single = opened(text.split(",")[0])[0][0]
    assert {key.partition("|")[2] for key in keys[0]} == {one.image.key for one in single.objects}


def test_an_unknown_validation_split_is_refused(tmp_path: Path) -> None:
    root = birds(tmp_path / "birds", ["a.png", "b.png"])
    with pytest.raises(ConfigError, match="unknown split of coco 'vall'"):
        opened("coco", root, val_split="vall")


def test_photographs_are_known_by_their_voc_id_else_by_their_content(tmp_path: Path) -> None:
    root = birds(tmp_path, ["cat-2008_000123-7.png", "robin.png", "wren.png"])
    shutil.copy(root / "robin.png", root / "renamed.png")
    refs = {path.name: ImageRef(path.name, (40, 60), path) for path in root.glob("*.png")}
    held = Photographs([ImageRef("x", (8, 8), Path("2008_000123.jpg")), refs["robin.png"]][1:])
    assert refs["renamed.png"] in held
    assert refs["wren.png"] not in held
    held = Photographs([ImageRef("JPEGImages/2008_000123", (8, 8))])
    assert refs["cat-2008_000123-7.png"] in held
    assert refs["wren.png"] not in held
    assert voc_id(ImageRef("12008_000123", (8, 8))) is None


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    """Own data of another kind whose test file shows one image of ``birds/train.json``, under another name."""
    root = birds(tmp_path / "birds", [*(f"{n}.png" for n in range(8)), "2008_000001.png"])
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(root / "3.png", other / "three.png")
    birds(other, ["three.png", "x-2008_000001.png", "new.png"], "test.json", seed=5)
    return tmp_path


def test_photographs_that_others_are_tested_on_are_left_out(held_out: Path) -> None:
    (found,), _ = opened("coco", held_out / "birds", hold_out=f"coco:{held_out / 'other'}")
    seen = names(found) | {ref.path.name for pair in found.validation for ref in (pair.source, pair.target) if ref.path}
    assert seen == {f"{n}.png" for n in range(8) if n != 3}


def test_a_data_sets_own_training_list_stays_as_it_was_published(pfpascal: Path) -> None:
    """``a`` and ``b`` are trained and tested on: PF-Pascal's official leak."""
    opener = Opener(pfpascal, hold_out="pfpascal")
    (found,) = opener.open(parse_sources("pfpascal"), listed=True)
    assert len(found.pairs) == 3
    assert len(opener.open(parse_sources("pfpascal"), listed=False)[0].objects) == 2
    with pytest.raises(DataError, match="nothing is left"):  # of its own too
        Opener(pfpascal, hold_out="pfpascal!").open(parse_sources("pfpascal"), listed=False)


def test_what_cannot_be_found_cannot_be_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SIMSC_HOME", "SIMSC_SHARED"):
        monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    root = birds(tmp_path / "birds", ["a.png", "b.png"])
    with pytest.raises(DataError, match="SPair-71k is not there"):
        opened("coco", root, hold_out="spair")


@pytest.mark.parametrize("preset", ["simsc-vits", "simsc-resnet50"])
@pytest.mark.real_data
def test_recipes_train_on_no_photograph_that_another_data_set_is_tested_on(preset: str) -> None:
    if not (shared_folder() / "data").is_dir():
        pytest.skip(f"the real data sets are not below {shared_folder()}")
    recipe = load_preset(preset)
    try:
        sources, _ = opened(recipe.data, anchor_split=recipe.anchor_split, hold_out=recipe.hold_out)
    except DataError as error:
        pytest.skip(str(error))
    tested = {name: {voc_id(ref) for ref in evaluated_images(name)} for name in ("pfpascal", "spair")}
    seen = {
        one.title: {voc_id(ref) for ref in [*(item.image for item in one.objects), *unique_images(one.anchors)]}
        for one in sources
    }
    assert None not in seen["pfpascal"] | seen["spair"] | seen["voc"] | tested["pfpascal"] | tested["spair"]
    for name in ("pfpascal", "spair", "voc"):
        assert not seen[name] & tested["spair"]
    for name in ("spair", "voc"):
        assert not seen[name] & tested["pfpascal"]
    assert len(seen["pfpascal"] & tested["pfpascal"]) > 200  # the official leak is PF-Pascal's own
    assert min(len(found) for found in seen.values()) > 500
