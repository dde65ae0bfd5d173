from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import simsc.bulk.index as index_module
from simsc.bulk.index import Index, build_index, coarse_features
from simsc.cli import app
from simsc.errors import ConfigError, DataError
from simsc.matcher import EncodedImage, Matcher
from simsc.models import QUICK
from simsc.models.model import SimSC

pytest.importorskip("faiss")
TINY: dict[str, Any] = {"size": 128, "device": "cpu"}


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty images of coloured tiles; image 7 is also there, shifted by a tile."""
    folder = tmp_path_factory.mktemp("collection")
    random = np.random.default_rng(5)
    for index in range(40):
        tiles = random.integers(0, 255, (4, 8, 3), dtype=np.uint8)
        Image.fromarray(tiles).resize((256, 128), Image.Resampling.NEAREST).save(folder / f"{index:02}.png")
    pixels = np.asarray(Image.open(folder / "07.png"))
    Image.fromarray(np.roll(pixels, 32, axis=1)).save(folder / "moved.png")
    return folder


@pytest.fixture(scope="module")
def built(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("index")
    assert build_index(collection, out, model=QUICK, options=TINY, workers=1) == {}
    return out


def test_the_same_part_is_found_where_it_is(built: Path, collection: Path) -> None:
    found = Index(built).find(collection / "07.png", (60, 70), top=3, candidates=5)
    assert [Path(hit.image).name for hit in found[:2]] == ["07.png", "moved.png"]
    assert found[0].point == pytest.approx((60, 70), abs=12)
    assert found[1].point == pytest.approx((60 + 32, 70), abs=24)
    assert found[0].similarity > found[1].similarity > found[2].similarity
    assert 0.8 < found[0].similarity <= 1.0001


def test_the_coarse_search_looks_at_few_images(built: Path, collection: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(built)
    looked: list[str] = []
    look = index._similarity
    monkeypatch.setattr(
        index, "_similarity", lambda feature, source, path: looked.append(path) or look(feature, source, path)
    )
    exact = index.find(collection / "20.png", (100, 40), top=3, exhaustive=True)
    assert len(looked) == len(index) == 41
    looked.clear()
    near = index.find(collection / "20.png", (100, 40), top=3, candidates=8)
    assert len(looked) == 8
    assert near[0] == exact[0]
    assert len({hit.image for hit in near} & {hit.image for hit in exact}) >= 2


def test_the_coarse_search_names_the_likeliest_first(built: Path, collection: Path) -> None:
    near = Index(built).near(collection / "07.png", (60, 70), 3)
    assert len(near) == 3
    assert {Path(path).name for path in near[:2]} == {"07.png", "moved.png"}


def test_an_index_is_built_with_few_encodings_in_memory(
    built: Path, collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[int] = []

    def counting(image: EncodedImage, side: int) -> np.ndarray:
        alive.append(sum(type(each) is EncodedImage for each in gc.get_objects()))
        return coarse_features(image, side)

    monkeypatch.setattr(index_module, "coarse_features", counting)
    encodings = json.loads((built / "index.json").read_text())["store"]
    build_index(collection, tmp_path, model=QUICK, options=TINY, store=encodings, workers=1)
    assert max(alive) <= min(alive) + 2


def test_many_features_go_through_inverted_lists(
    built: Path, collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "FEW", 100)
    encodings = json.loads((built / "index.json").read_text())["store"]
    build_index(collection, tmp_path, model=QUICK, options=TINY, store=encodings, workers=1)
    assert not (tmp_path / "encodings").exists()
    found = Index(tmp_path).find(collection / "07.png", (60, 70), top=2)
    assert {Path(hit.image).name for hit in found} == {"07.png", "moved.png"}


def test_images_of_any_shape_have_as_many_cells(photos: Path, color_model: SimSC) -> None:
    matcher = Matcher(color_model, size=256, keep_aspect=True, device="cpu")
    wide, tall = (matcher.encode(photos / name) for name in ("5.png", "0.png"))
    assert wide.features.map_size != tall.features.map_size
    for image in (wide, tall):
        cells = coarse_features(image, 8)
        assert cells.shape == (64, 64)
        np.testing.assert_allclose(np.linalg.norm(cells, axis=1), 1, rtol=1e-5)


def test_bad_images_are_left_out_and_told(collection: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    shutil.copy(collection / "00.png", tmp_path / "photos")
    (tmp_path / "photos" / "text.png").write_text("no image")
    failed = build_index(tmp_path / "photos", tmp_path / "index", model=QUICK, options=TINY, workers=1)
    assert [Path(path).name for path in failed] == ["text.png"]
    assert len(Index(tmp_path / "index")) == 1


def test_an_index_that_is_none_is_refused(built: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        Index(tmp_path)
    shutil.copytree(built, tmp_path / "copy")
    (tmp_path / "copy" / "coarse.faiss").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="damaged index"):
        Index(tmp_path / "copy")
    facts = json.loads((built / "index.json").read_text())
    (tmp_path / "copy" / "index.json").write_text(json.dumps({**facts, "mark": "other"}))
    with pytest.raises(ConfigError, match="another model"):
        Index(tmp_path / "copy")


def test_command_line(built: Path, collection: Path) -> None:
    image = str(collection / "07.png")
    result = CliRunner().invoke(app, ["find", image, str(built), "--point", "60,70", "--top", "2", "--json"])
    assert result.exit_code == 0, result.output
    assert [Path(hit["image"]).name for hit in json.loads(result.output)] == ["07.png", "moved.png"]
    text = CliRunner().invoke(app, ["find", image, str(built), "--point", "60,70", "--top", "1"])
    assert "07.png" in text.output
    outside = CliRunner().invoke(app, ["find", image, str(built), "--point", "6000,70"])
    assert isinstance(outside.exception, DataError)
