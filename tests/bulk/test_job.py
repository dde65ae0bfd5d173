from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import simsc.bulk.job as job_module
from simsc.bulk import SCHEMA, Resources, Settings, bulk
from simsc.bulk.job import Outcome
from simsc.bulk.manifest import Rows
from simsc.bulk.places import Place
from simsc.bulk.worker import Worker
from simsc.cli import app
from simsc.errors import ConfigError, DataError, SimscError
from simsc.matcher import load
from simsc.models import QUICK

ALONE = Resources(workers=1)
TINY: dict[str, Any] = {"size": 64, "device": "cpu"}


def write_manifest(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*.parquet"))}


def rows(folder: Path) -> list[dict[str, Any]]:
    return sorted(pq.read_table(folder).to_pylist(), key=lambda row: row["row"])


def test_every_row_has_its_result(manifest: Path, tmp_path: Path, tiny: Settings, photos: Path) -> None:
    outcome = bulk(manifest, tmp_path / "out", shard_rows=10, settings=replace(tiny, cycle=True), resources=ALONE)
    assert (outcome.rows, outcome.shards, outcome.done, outcome.errors, outcome.encoded) == (36, 4, 36, 0, 6)
    found = rows(tmp_path / "out")
    assert [row["row"] for row in found] == list(range(36))
    assert list(found[0]) == list(SCHEMA)
    matcher, statuses = load(QUICK, **TINY), list[tuple[str, str]]()
    for row, line in zip(found, manifest.read_text().splitlines(), strict=True):
        asked = json.loads(line)
        expected = matcher.match(photos / asked["source"], photos / asked["target"], asked["points"])
        np.testing.assert_allclose([(p["x"], p["y"]) for p in row["points"]], expected.points, atol=0.3)
        np.testing.assert_allclose([(p["x"], p["y"]) for p in row["source_points"]], asked["points"], atol=1e-4)
        np.testing.assert_allclose(row["confidence"], expected.confidence, rtol=0.05, atol=0.05)
        statuses += zip(row["status"], expected.status, strict=True)
        np.testing.assert_allclose(row["cycle_error"], expected.cycle_error, atol=2)
        assert row["temperature"] == pytest.approx(expected.temperature, rel=1e-4)
        assert (row["error"], row["mirrored"]) == (None, False)
    assert np.mean([one == other for one, other in statuses]) > 0.95  # but for those on a threshold
    assert not (tmp_path / "out" / "_encodings").exists()


def test_every_column_is_described_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bulk.md").read_text(encoding="utf-8")
    table = page.partition("## The results")[2].partition("\n## ")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert [name for cell in first for name in re.findall("`(\\w+)`", cell)] == list(SCHEMA)


def test_results_do_not_depend_on_order_memory_or_store(manifest: Path, tmp_path: Path, packaged: Settings) -> None:
    bulk(manifest, tmp_path / "a", shard_rows=7, settings=packaged, resources=ALONE)
    lines = manifest.read_text().splitlines()
    shuffled = [lines[index] for index in np.random.default_rng(0).permutation(len(lines))]
    (tmp_path / "other.jsonl").write_text("\n".join(shuffled))
    none = Resources(workers=1, store="none", max_bytes=0)
    bulk(tmp_path / "other.jsonl", tmp_path / "b", shard_rows=5, settings=packaged, resources=none)
    one, two = (
        sorted(json.dumps({**row, "row": 0, "id": ""}, sort_keys=True) for row in rows(tmp_path / name))
        for name in "ab"
    )
    assert one == two
    trusted = [row for row in rows(tmp_path / "a") if row["source"] == row["target"]]
    assert all(None not in (row["cycle_error"], row["status"]) for row in trusted)
    assert {status for row in trusted for status in row["status"]} - {"unsure"}, "without a calibration all are unsure"


def test_a_text_manifest_gives_work_to_all_workers(
    manifest: Path, tmp_path: Path, tiny: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "FEWEST_ROWS", 2)
    outcome = bulk(manifest, tmp_path / "out", settings=tiny, resources=ALONE)
    assert (outcome.rows, outcome.shards, outcome.done) == (36, 8, 36)


@pytest.mark.slow
def test_two_processes_write_the_same_bytes_as_one(manifest: Path, tmp_path: Path, packaged: Settings) -> None:
    store = Resources(workers=2, store=str(tmp_path / "store"))
    for name, resources in (("one", ALONE), ("two", store)):
        outcome = bulk(manifest, tmp_path / name, shard_rows=5, settings=packaged, resources=resources)
        assert outcome.done == 36
    assert parts(tmp_path / "one") == parts(tmp_path / "two")
    assert len(list((tmp_path / "store").rglob("*.safetensors"))) == 6
    again = bulk(manifest, tmp_path / "three", settings=packaged, resources=replace(store, workers=1))
    assert again.encoded == 0


def test_a_finished_shard_is_never_done_again(
    manifest: Path, tmp_path: Path, tiny: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, run = tmp_path / "out", Worker.__call__
    bulk(manifest, tmp_path / "whole", shard_rows=5, settings=tiny, resources=ALONE)

    def stop_at_three(worker: Worker, shard: int) -> Any:
        if shard == 3:
            raise KeyboardInterrupt
        return run(worker, shard)

    monkeypatch.setattr(Worker, "__call__", stop_at_three)
    with pytest.raises(KeyboardInterrupt):
        bulk(manifest, out, shard_rows=5, settings=tiny, resources=ALONE)
    monkeypatch.undo()
    (out / ".part-00000003.cut.parquet").write_bytes(b"half")  # what a killed process leaves
    marked = [out / f"part-{shard:08d}.parquet" for shard in range(3)]
    times = [path.stat().st_mtime_ns for path in marked]
    outcome = bulk(manifest, out, settings=tiny, resources=ALONE)
    assert (outcome.resumed, outcome.done, outcome.shards) == (3, 21, 8)
    assert [path.stat().st_mtime_ns for path in marked] == times
    assert parts(out) == parts(tmp_path / "whole")
    assert bulk(manifest, out, settings=tiny, resources=ALONE).done == 0


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on(manifest: Path, tmp_path: Path, photos: Path, tiny: Settings) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "simsc", "bulk", str(manifest), "--out", str(out), "--root", str(photos)]
    command += ["--shard-rows", "1", "--size", "64", "--workers", "2", "--device", "cpu", "--model", QUICK]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: len(parts(out)) > 2 or process.poll() is not None)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        # The workers end with their parent: nobody writes any more once their number stands still.
        wait_for(lambda: not alive(process.pid))
        before = parts(out)
        options = {**tiny.options, "keep_aspect": False, "flip": False}
        same = replace(tiny, options={key: options[key] for key in ("size", "keep_aspect", "flip", "device")})
        outcome = bulk(manifest, out, settings=same, resources=ALONE)
        assert outcome.resumed == len(before)
        assert {name: data for name, data in parts(out).items() if name in before} == before
        assert [row["row"] for row in rows(out)] == list(range(36))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def wait_for(condition: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(group: int) -> bool:
    """Whether a process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_bad_rows_and_images_stop_nothing(tmp_path: Path, photos: Path, tiny: Settings) -> None:
    (tmp_path / "text.png").write_text("no image")
    good = {"source": "0.png", "target": "1.png", "points": [[1, 2]]}
    wrong = [
        {**good, "target": "absent.png"},
        {**good, "source": str(tmp_path / "text.png")},
        {**good, "points": [[1, 900]]},
        {**good, "points": "x"},
        {"source": "0.png", "target": "1.png"},
        {**good, "source": None},
    ]
    manifest = write_manifest(tmp_path / "m.jsonl", [good, *wrong, good])
    for resources in (ALONE, replace(ALONE, store="none")):
        out = tmp_path / str(resources.store)
        outcome = bulk(manifest, out, settings=tiny, resources=resources)
        found = rows(out)
        assert outcome.errors == 6
        assert [row["error"] is None for row in found] == [True, *[False] * 6, True]
        assert [row["points"] is None for row in found] == [False, *[True] * 6, False]
        reasons = ("absent.png", "text.png", "outside", "points", "no points", "no source")
        assert all(part in row["error"] for part, row in zip(reasons, found[1:7], strict=True))


def test_points_from_annotations_and_grids(tmp_path: Path, photos: Path, tiny: Settings) -> None:
    labels = {"category": "thing", "keypoints": {"eye": [10, 20], "ear": [30, 40]}}
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    row = {"source": "0.png", "target": "1.png"}
    manifest = write_manifest(tmp_path / "m.jsonl", [{**row, "annotations": str(tmp_path / "labels.json")}, row])
    bulk(manifest, tmp_path / "out", settings=replace(tiny, grid=2), resources=ALONE)
    named, grid = rows(tmp_path / "out")
    assert named["names"] == ["eye", "ear"]
    assert named["source_points"] == [{"x": 10, "y": 20}, {"x": 30, "y": 40}]
    assert len(grid["points"]) == 4
    assert grid["source_points"][0] == {"x": 23.5, "y": 31.5}


@pytest.mark.parametrize(("rule", "count", "expected"), [("all", 5, 30), ("chain", 5, 5), ("nearest", 2, 12)])
def test_folders_and_rules(rule: str, count: int, expected: int, photos: Path, tmp_path: Path, tiny: Settings) -> None:
    if rule == "nearest":
        pytest.importorskip("faiss")
    settings = replace(tiny, grid=1)
    outcome = bulk(photos, tmp_path / "out", rule=rule, count=count, settings=settings, resources=ALONE)
    found = rows(tmp_path / "out")
    assert len(found) == outcome.rows == outcome.done == expected
    assert outcome.errors == 0
    assert all(row["source"] != row["target"] for row in found)
    assert len({(row["source"], row["target"]) for row in found}) == expected


def test_nearest_finds_the_look_alike(photos: Path, tmp_path: Path, tiny: Settings) -> None:
    pytest.importorskip("faiss")
    (tmp_path / "others").mkdir()
    for name in ("3.png", "1.png"):
        shutil.copy(photos / name, tmp_path / "others")
    (tmp_path / "query").mkdir()
    shutil.copy(photos / "3.png", tmp_path / "query" / "three.png")
    options: dict[str, Any] = {"targets": tmp_path / "others", "rule": "nearest", "count": 1}
    bulk(tmp_path / "query", tmp_path / "out", settings=replace(tiny, grid=1), resources=ALONE, **options)
    (row,) = rows(tmp_path / "out")
    assert row["target"].endswith("3.png")


def test_another_job_in_the_folder_is_refused(manifest: Path, tmp_path: Path, tiny: Settings) -> None:
    bulk(manifest, tmp_path / "out", settings=tiny, resources=ALONE)
    with pytest.raises(ConfigError, match="another settings"):
        bulk(manifest, tmp_path / "out", settings=replace(tiny, cycle=True), resources=ALONE)
    with pytest.raises(ConfigError, match="another shard_rows"):
        bulk(manifest, tmp_path / "out", settings=tiny, shard_rows=3, resources=ALONE)
    manifest.write_text(manifest.read_text().replace("0.png", "1.png"))
    with pytest.raises(ConfigError, match="another manifest"):
        bulk(manifest, tmp_path / "out", settings=tiny, resources=ALONE)


@pytest.mark.parametrize(
    "change",
    [{"plan": None}, {"plan": {}}, {"plan": {"kind": "tiles", "lists": 1, "shard_rows": 4}}, {"asked": [1]},
     {"plan": {"kind": "parquet", "files": ["a"], "counts": ["b"], "shard_rows": 4}}],
)  # fmt: skip
def test_a_damaged_description_is_refused(manifest: Path, tmp_path: Path, tiny: Settings, change: Any) -> None:
    good = {"asked": {}, "plan": {"kind": "tiles", "lists": "_images.json", "shard_rows": 4}}
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_job.json").write_text(json.dumps({**good, **change}))
    with pytest.raises(DataError, match=r"_job\.json: the field"):
        bulk(manifest, tmp_path / "out", settings=tiny, resources=ALONE)


def test_the_folder_is_locked_while_it_is_worked_on(manifest: Path, tmp_path: Path, tiny: Settings) -> None:
    seen = []
    lock = tmp_path / "out" / ".in-use"
    bulk(manifest, tmp_path / "out", settings=tiny, resources=ALONE, progress=lambda _: seen.append(lock.exists()))
    assert seen == [True]
    assert not lock.exists()


def test_a_job_on_another_store(manifest: Path, tmp_path: Path, photos: Path, tiny: Settings) -> None:
    import fsspec

    system = fsspec.filesystem("memory")
    for file in [manifest, *photos.iterdir()]:
        system.pipe(f"/job/{file.name}", file.read_bytes())
    settings = replace(tiny, root="memory://job")
    resources = Resources(workers=1, store="memory://job/store")
    outcome = bulk("memory://job/pairs.jsonl", "memory://job/out", settings=settings, resources=resources)
    assert (outcome.done, outcome.errors, outcome.encoded) == (36, 0, 6)
    bulk(manifest, tmp_path / "local", settings=tiny, resources=ALONE)
    for name, data in parts(tmp_path / "local").items():
        assert system.cat(f"/job/out/{name}") == data
    assert bulk("memory://job/pairs.jsonl", "memory://job/out", settings=settings, resources=resources).done == 0


def test_the_own_store_keeps_to_its_limit(manifest: Path, tmp_path: Path, tiny: Settings) -> None:
    sizes = []

    def watch(_: Outcome) -> None:
        sizes.append(sum(path.stat().st_size for path in (tmp_path / "out" / "_encodings").rglob("*.safetensors")))

    limit = 100_000
    resources = Resources(workers=1, store_bytes=limit, max_bytes=0)
    outcome = bulk(manifest, tmp_path / "out", shard_rows=3, settings=tiny, resources=resources, progress=watch)
    assert outcome.errors == 0
    assert 0 < max(sizes) <= limit


def test_what_an_earlier_run_left_in_the_own_store_counts(manifest: Path, tmp_path: Path, tiny: Settings) -> None:
    left = tmp_path / "out" / "_encodings" / "left.safetensors"
    left.parent.mkdir(parents=True)
    left.write_bytes(bytes(2_000_000))
    os.utime(left, (0, 0))
    there: list[bool] = []
    resources = Resources(workers=1, store_bytes=1_000_000)
    bulk(
        manifest, tmp_path / "out", shard_rows=3, settings=tiny, resources=resources,
        progress=lambda _: there.append(left.exists()),
    )  # fmt: skip
    assert not any(there[1:])


def test_a_grid_that_many_rows_ask_for_is_one_question(tmp_path: Path, tiny: Settings) -> None:
    asked = Rows()
    for number, target in enumerate("bc"):
        asked.add(number, {"source": "a", "target": target})
    worker = Worker(load(QUICK, **TINY), asked, Place.at(tmp_path), replace(tiny, grid=3))  # type: ignore[arg-type]
    one, other = (worker._pair(asked, index) for index in range(2))
    assert one.ask is other.ask is not None
    assert one.count == len(one.ask((40, 30))) == 9


def test_unknown_engine_and_missing_column(tmp_path: Path, manifest: Path, tiny: Settings) -> None:
    with pytest.raises(ConfigError, match="unknown engine 'lokal'; did you mean 'local'"):
        bulk(manifest, tmp_path / "out", settings=tiny, resources=Resources("lokal"))
    pq.write_table(pa.table({"source": ["a"]}), tmp_path / "m.parquet")
    with pytest.raises(SimscError, match="no column target"):
        bulk(tmp_path / "m.parquet", tmp_path / "out2", settings=tiny)


def test_command_line(manifest: Path, tmp_path: Path, photos: Path) -> None:
    arguments = ["bulk", str(manifest), "--out", str(tmp_path / "out"), "--root", str(photos), "--size", "64"]
    result = CliRunner().invoke(app, [*arguments, "--workers", "1", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "36 pairs in 1 files" in result.output
    assert "6 images encoded" in result.output
    again = CliRunner().invoke(app, [*arguments, "--workers", "1", "--device", "cpu", "--json"])
    facts = json.loads(again.stdout)
    assert (facts["rows"], facts["resumed"], facts["done"]) == (36, 1, 0)


def test_command_line_tells_of_errors(tmp_path: Path, photos: Path) -> None:
    manifest = write_manifest(tmp_path / "m.jsonl", [{"source": "0.png", "target": "absent.png", "points": [[1, 1]]}])
    shutil.copy(photos / "0.png", tmp_path)  # relative paths are the manifest's
    result = CliRunner().invoke(app, ["bulk", str(manifest), "--out", str(tmp_path / "out"), "--size", "64"])
    assert result.exit_code == 1, result.output
    assert "1 rows of this run have an error" in result.output


@pytest.mark.slow
def test_quick_benchmark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    from simsc.bench.bulk import bench_bulk

    monkeypatch.setattr("simsc.bench.bulk.find_spec", lambda _: None)  # Ray has tests of its own
    ratios = bench_bulk(quick=True)
    assert len(ratios) == 7
    assert ratios[1].value == 1.0  # encodings per image
