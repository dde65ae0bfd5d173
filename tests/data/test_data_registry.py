"""Data sets by name: where they are looked for, splits, fingerprints; and the real data sets' exact counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from simsc.data.catalog import DATASETS
from simsc.data.locate import find_root
from simsc.data.readers.pfpascal import listed_images
from simsc.data.records import count_points
from simsc.data.sources import data_fingerprint, dataset_info, load_pairs
from simsc.errors import ConfigError, DataError
from simsc.files import shared_folder

REAL = [
    ("pfpascal", "train", 2940, 23888),
    ("pfpascal", "train-all", 129624, 912752),
    ("pfpascal", "val", 308, 2519),
    ("pfpascal", "test", 299, 2414),
    ("pfpascal", "clean", 204, 1587),
    ("pfpascal", "unseen", 79, 599),
    ("pfwillow", "test", 900, 9000),
    ("spair", "test", 12234, 88328),
    ("spair", "clean", 8444, 58908),
    ("spair", "partial-trn", 1594, 10790),
    ("spair", "partial-val", 212, 1538),
]


def real_root(name: str) -> Path:
    folder = shared_folder() / "data"
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder} (set SIMSC_SHARED)")
    try:
        return find_root(dataset_info(name), folder)
    except DataError as error:
        pytest.skip(str(error))


@pytest.mark.real_data
@pytest.mark.parametrize(("name", "split", "pairs", "points"), REAL)
def test_real_counts(name: str, split: str, pairs: int, points: int) -> None:
    found = load_pairs(name, real_root(name), split)
    assert (len(found), count_points(found)) == (pairs, points)
    assert len({pair.name for pair in found}) == pairs
    assert dataset_info(name).counts[split] == (pairs, points)


@pytest.mark.real_data
def test_real_willow_points_are_ten_and_the_list_equals_the_annotations(tmp_path: Path) -> None:
    root = real_root("pfwillow")
    listed = load_pairs("pfwillow", root)
    assert {len(pair.source_points) for pair in listed} == {10}
    (tmp_path / "PF-dataset").symlink_to((root / "PF-dataset").resolve())
    formed = {pair.name: pair for pair in load_pairs("pfwillow", tmp_path)}
    assert {pair.name for pair in listed} == set(formed)
    for pair in listed:
        assert abs(pair.source_points - formed[pair.name].source_points).max() < 0.01


@pytest.mark.real_data
def test_real_pfpascal_list_equals_the_annotations() -> None:
    """The coordinates of the test list are those of the annotation files, in their order."""
    from simsc.data.readers.pfpascal import _Reader

    root = real_root("pfpascal")
    reader = _Reader(root)
    for pair in load_pairs("pfpascal", root, "test"):
        annotated = reader.annotated(pair.category, Path(pair.source.key).name).points
        assert abs(annotated[[int(name) for name in pair.point_names]] - pair.source_points).max() < 0.02


@pytest.mark.real_data
def test_documented_leaks() -> None:
    root, spair_root = real_root("pfpascal"), real_root("spair")
    train, test = listed_images(root, "train"), listed_images(root, "test")
    unordered = {frozenset(pair) for pair in train}
    assert sum(frozenset(pair) in unordered for pair in test) == 95
    seen = {name for pair in train for name in pair}
    shown = {name for pair in test for name in pair}
    assert (len(seen & shown), len(shown)) == (302, 506)
    lines = (spair_root / "Layout/large/test.txt").read_text().split()
    spair = [tuple(line.split(":")[0].split("-")[1:]) for line in lines]
    photographs = {name for pair in spair for name in pair}
    assert (len(seen & photographs), len(photographs)) == (82, 479)
    assert sum(bool(seen & set(pair)) for pair in spair) == 3790
    assert sum(frozenset(pair) in unordered for pair in spair) == 22


def test_names_and_splits_are_suggested(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'pfpascal'"):
        load_pairs("pfpascall", tmp_path)
    with pytest.raises(ConfigError, match=r"unknown split of pfwillow 'train'; Allowed: test"):
        load_pairs("pfwillow", tmp_path, "train")


@pytest.mark.parametrize("place", ["pf-pascal", ".", "pf-pascal/PF-dataset-PASCAL"])
def test_root_is_the_folder_its_parent_or_its_inside(pfpascal: Path, place: str) -> None:
    assert len(load_pairs("pfpascal", pfpascal.parent / place, "train")) == 3


@pytest.mark.parametrize(("variable", "folder"), [("SIMSC_HOME", "pfpascal"), ("SIMSC_SHARED", "pf-pascal")])
def test_cache_then_shared(
    pfpascal: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, folder: str
) -> None:
    for name in ("SIMSC_HOME", "SIMSC_SHARED"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    with pytest.raises(DataError, match=r"PF-PASCAL is not there: .*empty/data.*simsc data download pfpascal"):
        load_pairs("pfpascal")
    monkeypatch.setenv(variable, str(tmp_path / "home"))
    (tmp_path / "home/data").mkdir(parents=True)
    pfpascal.rename(tmp_path / "home/data" / folder)
    assert len(load_pairs("pfpascal")) == 2


def test_folder_inside_a_folder_of_the_same_name(spair: Path, tmp_path: Path) -> None:
    (tmp_path / "parent/spair-71k").mkdir(parents=True)
    spair.rename(tmp_path / "parent/spair-71k/SPair-71k")
    assert len(load_pairs("spair", tmp_path / "parent")) == 2


def test_scenes_are_dispatched() -> None:
    assert load_pairs("scenes", split="val")


def test_every_data_set_says_how_to_get_it() -> None:
    for info in (dataset.info for _, dataset in DATASETS.items()):
        assert info.sources or info.by_hand, info.name
        assert set(info.counts) <= set(info.splits)
        assert all(source.url.startswith("https://") and source.missing for source in info.sources)


def test_fingerprint_sees_names_keys_points_and_order(pfpascal: Path) -> None:
    pairs = load_pairs("pfpascal", pfpascal, "train")
    original = data_fingerprint(pairs)
    moved = pairs[0].source_points.copy()
    moved[0, 0] += 0.01
    others = [
        pairs[::-1],
        pairs[:2],
        [replace(pairs[0], name="other"), *pairs[1:]],
        [replace(pairs[0], source_points=moved), *pairs[1:]],
        [replace(pairs[0], source=replace(pairs[0].source, key="other")), *pairs[1:]],
    ]
    assert data_fingerprint(load_pairs("pfpascal", pfpascal, "train")) == original
    assert len({original, *(data_fingerprint(other) for other in others)}) == 6


def test_fingerprint_ignores_where_the_data_lie(pfpascal: Path) -> None:
    before = data_fingerprint(load_pairs("pfpascal", pfpascal, "train"))
    moved = pfpascal.rename(pfpascal.parent / "elsewhere")
    assert data_fingerprint(load_pairs("pfpascal", moved, "train")) == before
