"""What makes a result pleasant to work with: names, pictures, files, tables, and many targets."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from simsc.errors import ConfigError, DataError
from simsc.matcher import Matcher

POINTS = {"nose": (7.5, 7.5), "ear": (40.0, 24.0)}


@pytest.fixture(scope="module")
def matcher(color_model):
    return Matcher(color_model, device="cpu")


@pytest.fixture
def result(matcher, mosaic):
    return matcher.match(mosaic(), mosaic(), POINTS)


def test_points_may_be_a_dictionary_and_the_result_knows_the_names(result):
    assert result.names == ("nose", "ear")
    assert [match["name"] for match in result.to_dict()["matches"]] == ["nose", "ear"]
    np.testing.assert_array_equal(result.source_points, list(POINTS.values()))


def test_points_in_a_list_have_no_names(matcher, mosaic):
    assert "name" not in matcher.match(mosaic(), mosaic(), [[7.5, 7.5]]).to_dict()["matches"][0]


def test_length_and_text(result):
    assert len(result) == 2
    assert repr(result).startswith("MatchResult(2 points: 0 sure, 2 unsure, 0 none; temperature ")


def test_pictures_and_files(result, tmp_path):
    assert result.draw(height=100).height > 100
    assert Image.open(result.save(tmp_path / "matches.png")).width > 100
    assert json.loads(result.save(tmp_path / "matches.json").read_text()) == result.to_dict()
    assert result._repr_png_().startswith(b"\x89PNG")


def test_a_picture_lists_the_names_and_shows_what_is_doubtful(result):
    picture = result.draw()
    assert picture.height > result.draw(names=()).height
    assert picture.tobytes() != replace(result, confidence=np.full(2, 0.1)).draw().tobytes()


def test_show_opens_the_picture_that_draw_makes(result, monkeypatch):
    shown = []
    monkeypatch.setattr(Image.Image, "show", lambda picture, *_, **__: shown.append(picture))
    result.show(height=100)
    assert [picture.size for picture in shown] == [result.draw(height=100).size]


def test_a_dictionary_of_plain_values_says_all_of_every_point(result):
    values = json.loads(json.dumps(result.to_dict()))
    assert values["source"] == {"width": result.source_size[1], "height": result.source_size[0]}
    for number, match in enumerate(values["matches"]):
        assert set(match) == {"name", "source", "target", "confidence", "cycle_error", "matched", "status"}
        np.testing.assert_allclose(match["target"], result.points[number], atol=1e-3)
        assert match["confidence"] == pytest.approx(result.confidence[number], abs=1e-6)


def test_encoded_images_have_to_be_given_to_be_drawn(matcher, mosaic):
    encoded = matcher.encode(mosaic())
    result = matcher.match(encoded, mosaic(), POINTS)
    assert result._repr_png_() is None
    with pytest.raises(DataError, match="give draw"):
        result.draw()
    assert result.draw(mosaic(), mosaic())


def test_a_table_for_those_who_have_pandas(result):
    pytest.importorskip("pandas")
    table = result.to_pandas()
    assert list(table.index) == ["nose", "ear"]
    np.testing.assert_allclose(table.loc["ear", ["x", "y"]].astype(float), result.points[1])


def test_bad_targets_can_be_skipped_and_progress_is_told(matcher, mosaic, tmp_path):
    stream = io.BytesIO()
    Image.fromarray(mosaic()).save(stream, "PNG")
    targets = [mosaic(), tmp_path / "absent.png", b"no image", stream]
    told: list[int] = []
    found = list(matcher.match_many(mosaic(), targets, POINTS, batch_size=3, on_error="skip", progress=told.append))
    assert [each.index for each in found] == [0, 3]
    assert found[1].names == ("nose", "ear")
    assert told == [3, 4]
    with pytest.raises(DataError):
        list(matcher.match_many(mosaic(), targets, POINTS))
    with pytest.raises(ConfigError, match="on_error"):
        list(matcher.match_many(mosaic(), targets, POINTS, on_error="ignore"))
