"""Verification finds what is wrong with a data set, and ``simsc data`` prints it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from simsc.cli.data import app
from simsc.data.verify import describe, verify
from simsc.errors import DataError

runner = CliRunner()


def test_counts_are_compared_with_the_known_ones(pfpascal: Path) -> None:
    problems = verify("pfpascal", pfpascal).problems
    assert "train: 3 pairs, expected 2,940" in problems
    assert "train: 6 points, expected 23,888" in problems


def test_image_headers_are_opened(spair: Path) -> None:
    Image.new("RGB", (90, 80)).save(spair / "JPEGImages/cat/a.jpg")
    (spair / "JPEGImages/cat/b.jpg").write_bytes(b"no image")
    (spair / "JPEGImages/cat/c.jpg").unlink()
    report = verify("spair", spair)
    assert report.images == 3
    found = "\n".join(report.problems)
    assert "a.jpg: is 90x80, its annotation says 100x80" in found
    assert "b.jpg: not an image" in found
    assert "c.jpg: no such image file" in found


def test_absent_splits_are_named(spair: Path) -> None:
    report = describe("spair", spair)
    assert set(report.splits) == {"test"} | ({"clean"} & set(report.splits))
    assert "trn.txt is missing" in report.absent["train"]


def test_points_outside_are_counted(pfpascal: Path) -> None:
    path = pfpascal / "image_pairs/test_pairs.csv"
    path.write_text("source_image,target_image,class,XA,YA,XB,YB\na,b,8,0.4;101,1;2,1;2,1;2\n")
    assert describe("pfpascal", pfpascal).splits["test"].points_outside == 2


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="CUB-200-2011 is not there"):
        describe("cub", tmp_path)


def test_list_command() -> None:
    rows = json.loads(runner.invoke(app, ["list", "--json"]).output)
    assert {row["name"] for row in rows} >= {"pfpascal", "pfwillow", "spair", "ap10k", "cub", "coco", "pairs", "scenes"}
    assert "PF-WILLOW" in runner.invoke(app, ["list"]).output


def test_info_command(pfpascal: Path) -> None:
    result = runner.invoke(app, ["info", "pfpascal", "--root", str(pfpascal), "--json"])
    facts = json.loads(result.output)
    assert facts["splits"]["train"] == {
        "pairs": 3,
        "points": 6,
        "images": 4,
        "points_outside": 0,
        "categories": {"cat": 3},
    }
    table = runner.invoke(app, ["info", "pfpascal", "--root", str(pfpascal)]).output
    assert "Pairs per category" in table
    assert "Proposal Flow" in table


def test_verify_command(pfpascal: Path) -> None:
    result = runner.invoke(app, ["verify", "pfpascal", "--root", str(pfpascal)])
    assert result.exit_code == 1
    assert "problem: train: 3 pairs, expected 2,940" in result.output
    as_json = runner.invoke(app, ["verify", "pfpascal", "--root", str(pfpascal), "--json"])
    assert json.loads(as_json.output)["images"] == 3


def test_command_line_and_images_do_not_import_torch() -> None:
    code = "import sys, simsc.cli.data, simsc.images; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
