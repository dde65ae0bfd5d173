"""``simsc match`` and ``simsc warp`` end to end, with a model that can be worked out by hand."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from simsc.cli import app
from simsc.cli.views import status_text
from simsc.errors import ConfigError, DataError
from simsc.models.trained import Trained


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def images(tmp_path, monkeypatch, color_model, mosaic):
    monkeypatch.setattr(Trained, "open", lambda name: Trained.of(copy.deepcopy(color_model)))
    image = mosaic()
    paths = tmp_path / "source.png", tmp_path / "target.png"
    Image.fromarray(image).save(paths[0])
    Image.fromarray(np.ascontiguousarray(image[:, ::-1])).save(paths[1])
    return paths


def test_points_as_json_and_in_a_file(images, tmp_path):
    result = run("match", *images, "--points", "7.5,7.5;39.5,23.5", "--json", "--out", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    targets = [match["target"] for match in found["matches"]]
    np.testing.assert_allclose(targets, [(247.5, 7.5), (215.5, 23.5)], atol=1e-2)
    assert json.loads((tmp_path / "out.json").read_text()) == found


def test_a_table_and_a_picture(images, tmp_path):
    result = run("match", *images, "--grid", 2, "--picture", tmp_path / "out.png")
    assert result.exit_code == 0, result.output
    assert "temperature 0.0050" in result.stdout
    assert Image.open(tmp_path / "out.png").width > 256


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", "[[7.5, 7.5]]"),
        ("p.json", '{"points": [[7.5, 7.5]]}'),
        ("p.txt", "# x, y\n7.5 7.5\n"),
        ("p.csv", "7.5,7.5"),
    ],
)
def test_points_from_files(images, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    result = run("match", *images, "--points-file", tmp_path / name, "--json")
    np.testing.assert_allclose(json.loads(result.stdout)["matches"][0]["target"], (247.5, 7.5), atol=1e-2)


def test_unmatched_points_give_exit_code_1(images):
    assert run("match", *images, "--grid", 2, "--min-confidence", 1.01).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--points", "1,2", "--grid", "3"], ConfigError),
        ([], ConfigError),
        (["--points", "1,2;x,3"], DataError),
        (["--points", "1,2,3"], DataError),
        (["--points", "900,3"], DataError),
        (["--grid", "0"], DataError),
        (["--points-file", "absent.txt"], DataError),
    ],
)
def test_mistakes_are_named(images, arguments, error):
    result = run("match", *images, *arguments)
    assert isinstance(result.exception, error)


def test_warp_writes_an_image_of_the_targets_size(images, tmp_path, mosaic):
    result = run("warp", *images, "--out", tmp_path / "w.png", "--sheet", tmp_path / "s.png", "--smooth", 0)
    assert result.exit_code == 0, result.output
    warped = np.asarray(Image.open(tmp_path / "w.png"))
    np.testing.assert_array_equal(warped[8:-8, 8:-8], mosaic()[:, ::-1][8:-8, 8:-8])
    assert (tmp_path / "s.png").exists()


def test_the_mirror_is_asked_for_and_said(images):
    result = run("match", *images, "--points", "7.5,7.5", "--mirror", "yes", "--json")
    assert json.loads(result.stdout)["mirrored"] is True
    assert "mirror image" in run("match", *images, "--points", "7.5,7.5", "--mirror", "yes").stdout
    assert "mirror image" not in run("match", *images, "--points", "7.5,7.5", "--mirror", "auto").stdout
    refused = run("match", *images, "--points", "7.5,7.5", "--mirror", "perhaps")
    assert isinstance(refused.exception, ConfigError)


def test_the_table_says_the_status_by_word_sign_and_colour(images):
    table = run("match", *images, "--points", "7.5,7.5").stdout
    assert "○ unsure" in table
    assert "× none" in run("match", *images, "--points", "7.5,7.5", "--min-confidence", 1.1).stdout  # noqa: RUF001
    looks = [status_text(status) for status in ("sure", "unsure", "none")]
    assert len({text.style for text in looks}) == len({text.plain[0] for text in looks}) == 3
