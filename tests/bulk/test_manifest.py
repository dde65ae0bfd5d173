from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import simsc.bulk.manifest as manifest_module
from simsc.bulk.manifest import COLUMNS, ParquetManifest, Rows, copy_text, count_rows, find_manifest
from simsc.bulk.places import Place
from simsc.bulk.rules import TilesManifest
from simsc.errors import ConfigError, DataError

POINTS = [[1.0, 2.0], [3.5, 4.0]]


def read_text(path: Path, shard_rows: int = 2) -> list[Rows]:
    files = copy_text(Place.at(path), Place.at(path.parent / "copy"))
    manifest = ParquetManifest([str(file) for file in files], count_rows(files), shard_rows)
    return [manifest.read(shard) for shard in range(manifest.shards)]


def test_jsonl_csv_and_parquet_say_the_same(tmp_path: Path) -> None:
    rows = [
        {"id": "one", "source": "a.png", "target": "b.png", "points": POINTS, "names": ["eye", "ear"]},
        {"source": "b.png", "target": "a.png", "points": POINTS[:1]},
        {"source": "b.png", "target": "c.png", "annotations": "b.json"},
    ]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    (tmp_path / "m.csv").write_text(
        'id,source,target,points,names,annotations\none,a.png,b.png,"1,2;3.5,4",eye;ear,\n'
        ',b.png,a.png,"1,2",,\n,b.png,c.png,,,b.json\n'
    )
    points = pa.list_(pa.list_(pa.float64()))
    types = {"points": points, "names": pa.list_(pa.string())}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "m.parquet", row_group_size=1)
    file = find_manifest(Place.at(tmp_path / "m.parquet"))
    parquet = ParquetManifest([str(file[0])], count_rows(file), 2)
    forms = [read_text(tmp_path / "m.jsonl"), read_text(tmp_path / "m.csv"), [parquet.read(0), parquet.read(1)]]
    for first, second in forms:
        assert first.number == [0, 1]
        assert second.number == [2]
        assert first.id == ["one", "1"]
        assert first.source + second.source == ["a.png", "b.png", "b.png"]
        assert first.target + second.target == ["b.png", "a.png", "c.png"]
        np.testing.assert_array_equal(first.points[0], POINTS)
        np.testing.assert_array_equal(first.points[1], POINTS[:1])
        assert first.names == [["eye", "ear"], None]
        assert second.annotations == ["b.json"]
        assert first.error == [None, None]


def test_points_as_structs(tmp_path: Path) -> None:
    rows = Rows()
    rows.add(0, {"source": "a", "target": "b", "points": [{"x": 1.0, "y": 2.0}]})
    np.testing.assert_array_equal(rows.points[0], [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "not valid JSON"),
        ('{"source": "a", "target": "b", "id": "\\ud800"}', "half a character"),
        ('{"source": "a", "target": "b", "points": "1,2;nan,4"}', "must be finite"),
        ("[1]", "not a JSON object"),
        ('{"source": "a.png"}', "no target"),
        ('{"source": "a", "target": "b", "points": [[1, 2, 3]]}', "points"),
        ('{"source": "a", "target": "b", "points": "1;2"}', "points"),
        ('{"source": "a", "target": "b", "points": [[1, null]]}', "points"),
        ('{"source": "a", "target": "b", "points": {"x": 1}}', ""),
        ('{"source": "a", "target": "b", "points": [[1, 2]], "names": ["x", "y"]}', "2 names of 1 points"),
    ],
)
def test_a_bad_row_is_a_row_with_an_error(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "m.jsonl").write_text(f'{line}\n{{"source": "a", "target": "b", "points": [[1, 2]]}}\n')
    (rows,) = read_text(tmp_path / "m.jsonl")
    assert rows.error[0] is not None
    assert reason in rows.error[0]
    assert rows.error[1] is None


def test_rows_of_several_files_are_numbered_through(tmp_path: Path) -> None:
    counts = [3, 1, 5]
    start = 0
    for index, count in enumerate(counts):
        rows = [{"source": str(start + each), "target": "t"} for each in range(count)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{index}.parquet", row_group_size=2)
        start += count
    files = find_manifest(Place.at(tmp_path))
    manifest = ParquetManifest([str(file) for file in files], count_rows(files), 4)
    read = [manifest.read(shard) for shard in range(manifest.shards)]
    assert [len(rows) for rows in read] == [4, 4, 1]
    assert [number for rows in read for number in rows.number] == list(range(9))
    assert [source for rows in read for source in rows.source] == [str(number) for number in range(9)]


def test_shards_of_a_copied_manifest_may_cut_its_groups_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_module, "GROUP_ROWS", 3)
    monkeypatch.setattr(manifest_module, "GROUPS_PER_FILE", 2)
    lines = [json.dumps({"source": str(number), "target": "t"}) for number in range(14)]
    (tmp_path / "m.jsonl").write_text("\n".join(lines))
    shards = read_text(tmp_path / "m.jsonl", shard_rows=4)
    assert [rows.number for rows in shards] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13]]
    assert [source for rows in shards for source in rows.source] == [str(number) for number in range(14)]
    assert len(list((tmp_path / "copy").iterdir())) == 3


def test_what_is_no_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("")
    (tmp_path / "m.parquet").write_text("no")
    (tmp_path / "m.csv").write_text("left,right\na,b\n")
    with pytest.raises(DataError, match="expected a manifest"):
        find_manifest(Place.at(tmp_path / "m.txt"))
    with pytest.raises(DataError, match="no such manifest"):
        find_manifest(Place.at(tmp_path / "absent.csv"))
    with pytest.raises(DataError, match="not a Parquet file"):
        count_rows(find_manifest(Place.at(tmp_path / "m.parquet")))
    with pytest.raises(ConfigError, match="no column source and no column target"):
        read_text(tmp_path / "m.csv")


@pytest.mark.parametrize("shard_rows", [1, 4, 10, 1000])
def test_tiles_hold_every_pair_once(shard_rows: int) -> None:
    tiles = TilesManifest(list("abcde"), list("cdefg"), shard_rows)
    shards = [tiles.read(shard) for shard in range(tiles.shards)]
    pairs = [pair for rows in shards for pair in zip(rows.source, rows.target, strict=True)]
    assert sorted(pairs) == sorted((a, b) for a in "abcde" for b in "cdefg" if a != b)
    assert len(pairs) == tiles.rows
    assert len({number for rows in shards for number in rows.number}) == tiles.rows
    assert max(len(set(rows.source)) for rows in shards) <= max(shard_rows**0.5, 1)


def test_places_of_other_stores(tmp_path: Path) -> None:
    folder = Place.at("memory://bulk-places")
    (folder / "a" / "b.txt").write(b"hello")
    assert [file.read() for file in folder.files(recursive=True)] == [b"hello"]
    assert (folder / "a" / "b.txt").is_file()
    assert (folder / str(tmp_path)).local
    with pytest.raises(ConfigError, match="no such store"):
        Place.at("nonsense://x")


def test_the_address_of_a_place_leads_back_to_it(tmp_path: Path) -> None:
    for where in (tmp_path / "a", "memory://bucket/a", "s3://bucket/a?region=eu-central-1"):
        place = Place.at(where) / "b.txt"
        assert Place.at(str(place)) == place
        assert Place.at(str(place)).parent.name == "a"
