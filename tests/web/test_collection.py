"""A collection that was indexed can be searched from the page: where is this point in all of its images?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from simsc.cli import app
from simsc.models import QUICK

pytest.importorskip("faiss", reason="the extra 'bulk' is not installed")

from simsc.bulk.index import Index, build_index
from simsc.web.app import create_app
from simsc.web.settings import Settings


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of twelve images of coloured tiles, and of their index."""
    folder, out = tmp_path_factory.mktemp("collection"), tmp_path_factory.mktemp("index")
    random = np.random.default_rng(5)
    for number in range(12):
        tiles = random.integers(0, 255, (4, 8, 3), dtype=np.uint8)
        Image.fromarray(tiles).resize((256, 128), Image.Resampling.NEAREST).save(folder / f"{number:02}.png")
    assert build_index(folder, out, model=QUICK, options={"size": 128, "device": "cpu"}, workers=1) == {}
    return folder, out


@pytest.fixture(scope="module")
def index(collection: tuple[Path, Path]) -> Index:
    return Index(collection[1], device="cpu")


def test_a_point_is_found_in_the_collection(make_client, settings, collection, index) -> None:
    client = make_client(settings, index=index)
    assert client.get("/api/health").json()["indexed"] == 12
    file = (collection[0] / "07.png").read_bytes()
    image = client.post("/api/images", files={"file": ("mine.png", file)}).json()["id"]
    found = client.post("/api/index/find", json={"image": image, "point": [60, 70], "top": 3}).json()
    assert len(found) == 3
    assert found[0]["name"] == "07.png"
    assert found[0]["similarity"] > 0.8
    taken = client.post(f"/api/index/{found[0]['number']}")
    assert (taken.status_code, taken.json()["name"], taken.json()["width"]) == (201, "07.png", 256)
    assert client.post("/api/index/99").json()["code"] == "not-found"
    assert client.post("/api/index/find", json={"image": image, "point": [600, 70]}).status_code == 400


def test_without_a_collection_nothing_is_searched(client, send) -> None:
    assert client.get("/api/health").json()["indexed"] == 0
    answer = client.post("/api/index/find", json={"image": send(), "point": [1, 1]})
    assert (answer.status_code, "--index" in answer.json()["detail"]) == (404, True)


def test_serve_opens_the_index(monkeypatch, collection) -> None:
    seen = {}
    monkeypatch.setattr("uvicorn.run", lambda app, **options: seen.update(options, app=app))
    result = CliRunner().invoke(app, ["serve", "--model", "resnet50", "--index", str(collection[1])])
    assert result.exit_code == 0, result.output
    assert len(seen["app"].state.service.index) == 12


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_page_shows_where_a_point_is_in_the_collection(
    browser: Any, serve: Callable[[Any], str], collection, index: Index, small_matcher: Callable[[str], Any]
) -> None:
    page = browser.new_page()
    page.set_default_timeout(60_000)
    page.goto(serve(create_app(Settings(models={"first": "resnet50.v1_in1k"}), small_matcher, index)))
    page.wait_for_selector("body[data-ready]")
    page.locator("#source-file").set_input_files(collection[0] / "07.png")
    page.wait_for_selector("[data-side=source][aria-busy=false] .frame")
    page.locator("#source-stage .frame").click(position={"x": 90, "y": 80})
    page.get_by_role("button", name="Find the point in 12 images").click()
    page.wait_for_selector("#wall .object >> nth=11")
    page.wait_for_selector("#wall .object:last-child .dot")
    told = page.locator("#wall .counts").all_inner_texts()
    similar = [float(words.split("similarity ")[1]) for words in told]
    assert similar == sorted(similar, reverse=True)
    assert page.locator("#wall .name").first.inner_text() == "07.png"
    assert "07.png" in page.locator("#target-name").inner_text()  # there was no target: the best is opened
    page.close()
