"""The script that makes a COCO file of a data set's photographs keeps what there is to learn from."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from simsc.data.catalog import DATASETS
from simsc.data.sources import load_objects
from simsc.files import write_json

ROOT = Path(__file__).parents[2]
PHOTOS = ROOT / "examples" / "photos" / "keypoints.json"


@pytest.mark.skipif(not PHOTOS.is_file(), reason="the source distribution leaves the photographs out")
def test_a_part_of_a_data_set_is_read_back_as_it_was(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("photographs", ROOT / "docs/results/adapting/photographs.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    objects = load_objects("coco", PHOTOS)
    monkeypatch.setattr(script, "load_objects", lambda *_: objects)
    script.main("coco", "test", "1::2", str(tmp_path / "half.json"), objects[0].category)
    expected = [one for one in objects if one.category == objects[0].category][1::2]
    found = DATASETS["coco"].objects(tmp_path / "half.json", "test")
    assert len(found) == len(expected) > 2
    assert not all(one.present.all() for one in expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.image.path, one.category) == (other.image.path, other.category)
        np.testing.assert_array_equal(one.present, other.present)
        np.testing.assert_allclose(one.points[one.present], other.points[other.present])
        np.testing.assert_allclose(one.box, other.box)

    write_json(tmp_path / "all.json", script.as_coco(objects))
    assert [one.category for one in DATASETS["coco"].objects(tmp_path / "all.json", "test")] == [
        one.category for one in objects
    ]
