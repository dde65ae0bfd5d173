"""The page in a real browser, used as a person would use it."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'dev')")
uvicorn = pytest.importorskip("uvicorn", reason="the extra 'web' is not installed")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 60_000

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium found on the PATH (Debian: apt install chromium)"),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def address(small_matcher: Callable[[str], Any]) -> Iterator[str]:
    """A running server with two small models."""
    from simsc.web.app import create_app
    from simsc.web.settings import Settings

    settings = Settings(models={"first": "resnet50.v1_in1k", "second": "resnet50.tv_in1k"}, max_upload=2**20)
    server = uvicorn.Server(uvicorn.Config(create_app(settings, small_matcher), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # The sandbox of Chromium cannot be set up by root.
    flags = [*FLAGS, "--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else FLAGS
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The open page; afterwards, no error may have been logged and no request may have left the server."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    errors: list[str] = []
    outside: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: None if _is_local(request.url, address) else outside.append(request.url))
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    yield page
    context.close()
    expected = getattr(page, "expected_errors", ())
    assert [error for error in errors if not any(words in error for words in expected)] == []
    assert outside == []


def _is_local(url: str, address: str) -> bool:
    return url.startswith((address + "/", "blob:" + address, "data:"))


def take_sample(page: Any, name: str = "chair") -> None:
    page.get_by_role("button", name={"chair": "Sample: Chairs", "bird": "Sample: Birds"}[name]).click()
    page.wait_for_selector("#target-stage .frame img")
    page.wait_for_selector("[data-side=source][aria-busy=false]")


def click_source(page: Any, x: float, y: float) -> None:
    """Click at a place given as a share of the image, and wait for the match."""
    before = page.locator("#target-stage .point").count()
    box = page.locator("#source-stage .frame").bounding_box()
    page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.wait_for_selector(f"#target-stage .point >> nth={before}")


def rows(page: Any) -> list[list[str]]:
    return [line.locator("td").all_inner_texts() for line in page.locator("#points tbody tr").all()]


def place_of(page: Any, side: str, index: int = 0) -> np.ndarray:
    box = page.locator(f"#{side}-stage .point").nth(index).bounding_box()
    return np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])


def set_slider(page: Any, selector: str, value: int) -> None:
    page.locator(selector).evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )


def heat(page: Any) -> np.ndarray:
    """The heat-map's pixels ``(h, w, 4)``."""
    values = page.locator("#target-stage canvas").evaluate(
        "canvas => [canvas.height, canvas.width, "
        "...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    )
    return np.array(values[2:], dtype=np.uint8).reshape(values[0], values[1], 4)


def wait_for_text(page: Any, selector: str, pattern: str) -> str:
    sync_api.expect(page.locator(selector)).to_have_text(re.compile(pattern), timeout=PATIENCE)
    return page.locator(selector).inner_text()


def test_click_match_slide_and_export(page: Any, tmp_path) -> None:
    take_sample(page)
    click_source(page, 0.5, 0.6)
    click_source(page, 0.25, 0.3)
    assert [row[0] for row in rows(page)] == ["1", "2"]
    assert wait_for_text(page, "#status", "Point 2 at .* confidence \\d+ percent")
    assert page.locator("#tick").is_visible()
    assert "learned" in page.locator("#learned").inner_text()

    _slide_and_return(page)
    _export_all(page, tmp_path)


def _slide_and_return(page: Any) -> None:
    """Sharp, then smeared: the words, the confidence and the heat-map all say so, and agree with the server."""
    spreads, brightness = [], []
    for position in (0, 1000):
        with page.expect_response("**/api/match") as answer:
            set_slider(page, "#temperature", position)
            words = page.locator("#spread").inner_text()
            here = float(rows(page)[0][3])
        spreads.append(float(re.search(r"spread over ([\d.]+)", words)[1]))
        brightness.append(heat(page)[..., 1].mean())
        assert answer.value.json()["matches"][0]["confidence"] == pytest.approx(here, abs=0.011)
    assert spreads[0] < spreads[1]
    assert brightness[0] < brightness[1]
    assert page.locator("#temperature-value").inner_text() == "1.00"
    with page.expect_response("**/api/match"):
        page.locator("#learned").click()
    assert page.locator("#learned").is_disabled()


def _export_all(page: Any, folder: Any) -> None:
    for form, name in (("json", "matches.json"), ("coco", "matches.coco.json"), ("png", "matches.png")):
        with page.expect_download() as download:
            page.locator(f"[data-export={form}]").click()
        assert download.value.suggested_filename == name
        download.value.save_as(folder / name)
    plain = json.loads((folder / "matches.json").read_text())
    assert len(plain["matches"]) == 2
    assert plain["names"] == ["chair-source.png", "chair-target.png"]
    assert (folder / "matches.png").read_bytes().startswith(b"\x89PNG")


def test_a_dragged_point_is_followed_by_its_match(page: Any) -> None:
    take_sample(page)
    click_source(page, 0.2, 0.2)
    set_slider(page, "#temperature", 0)
    page.wait_for_timeout(400)
    source, target = place_of(page, "source"), place_of(page, "target")
    page.mouse.move(*source)
    page.mouse.down()
    page.mouse.move(*(source + np.array([60, 50])), steps=5)
    page.mouse.move(*(source + np.array([120, 100])), steps=5)
    page.mouse.up()
    page.wait_for_load_state("networkidle")
    np.testing.assert_allclose(place_of(page, "source"), source + np.array([120, 100]), atol=1.5)
    assert np.linalg.norm(place_of(page, "target") - target) > 0.5
    assert len(rows(page)) == 1


def test_keyboard_alone_is_enough(page: Any) -> None:
    take_sample(page)
    page.locator("body").press("+")
    page.wait_for_selector("#target-stage .point")
    focused = page.locator("#source-stage .point:focus")
    assert focused.get_attribute("aria-label").startswith("Point 1 at ")
    start = place_of(page, "source")
    for key in ("ArrowRight", "Shift+ArrowDown"):
        page.keyboard.press(key)
    moved = place_of(page, "source") - start
    assert moved[1] == pytest.approx(10 * moved[0], rel=0.05)
    assert moved[0] > 0
    wait_for_text(page, "#status", "^Point 1 at .*; match at ")
    page.keyboard.press("+")
    page.wait_for_selector("#target-stage .point >> nth=1")
    page.keyboard.press("Shift+Tab")
    assert page.locator("#source-stage .point:focus").inner_text() == "1"
    page.keyboard.press("Delete")
    wait_for_text(page, "#status", "Point 1 is removed; 1 left")
    assert page.locator("#source-stage .point").count() == page.locator("#target-stage .point").count() == 1


def asked(answer: Any, **wanted: str) -> bool:
    """Whether an answer is that of a match with these settings; an earlier one may still be on its way."""
    return answer.url.endswith("/api/match") and wanted.items() <= answer.request.post_data_json.items()


def test_own_files_models_localisers_and_warp(page: Any, image_file: Callable[..., bytes]) -> None:
    for side, seed in (("source", 0), ("target", 1)):
        file = {"name": f"{side}.png", "mimeType": "image/png", "buffer": image_file(seed, (90, 120))}
        page.locator(f"#{side}-file").set_input_files(file)
        wait_for_text(page, f"#{side}-name", f"{side}.png, 120.90")
    click_source(page, 0.4, 0.4)
    first = rows(page)[0]
    with page.expect_response(lambda answer: asked(answer, model="second")) as answer:
        page.locator("#model").select_option("second")
    assert answer.value.json()["model"] == "second"
    with page.expect_response(lambda answer: asked(answer, localizer="argmax")) as answer:
        page.locator("#localizer").select_option("argmax")
    assert answer.value.json()["localizer"] == "argmax"
    assert rows(page)[0][2] != first[2]
    page.get_by_label("Warped source").check()
    page.wait_for_selector("#target-stage .warp:not([hidden])")
    assert heat(page)[..., 3].max() == 0


def test_dropped_files_and_refused_ones(page: Any, image_file: Callable[..., bytes]) -> None:
    page.expected_errors = ("415",)
    drop = """(panel, [names, bytes]) => {
        const transfer = new DataTransfer();
        names.forEach((name, index) => transfer.items.add(new File([new Uint8Array(bytes[index])], name)));
        panel.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }"""
    both = [list(image_file(seed)) for seed in (0, 1)]
    page.locator("[data-side=target]").evaluate(drop, [["one.png", "two.png"], both])
    wait_for_text(page, "#source-name", "one.png")
    wait_for_text(page, "#target-name", "two.png")
    page.wait_for_selector("[data-side=source][aria-busy=false]")
    page.locator("[data-side=source]").evaluate(drop, [["evil.png"], [list(b"not an image")]])
    wait_for_text(page, "#problem-text", "not an image of an allowed type")
    assert "one.png" in page.locator("#source-name").inner_text()
    page.get_by_role("button", name="Dismiss this message").click()
    assert not page.locator("#problem").is_visible()


def test_images_that_the_server_dropped_come_back_by_themselves(page: Any) -> None:
    page.expected_errors = ("404",)
    take_sample(page)
    for side in ("source", "target"):
        page.locator(f"#{side}-stage .frame > img:first-child").evaluate(
            "image => fetch(image.src, { method: 'DELETE' })"
        )
    click_source(page, 0.5, 0.5)
    assert not page.locator("#problem").is_visible()


def test_swapped_images_take_the_matches_as_points(page: Any) -> None:
    take_sample(page)
    click_source(page, 0.5, 0.5)
    before = rows(page)[0]
    names = [page.locator(f"#{side}-name").inner_text() for side in ("source", "target")]
    page.locator("#swap").click()
    wait_for_text(page, "#status", "swapped")
    assert [page.locator(f"#{side}-name").inner_text() for side in ("target", "source")] == names
    assert rows(page)[0][1] == before[2]


@pytest.mark.parametrize("convention", ["center", "corner"])
def test_the_page_computes_what_the_package_computes(page: Any, convention: str) -> None:
    """The slider's formulas, for every localiser, against those of simsc.matching."""
    import torch

    from simsc.coordinates import resize_points
    from simsc.matching import LOCALIZERS
    from simsc.matching.localize import localize, peak_probability

    scores = torch.rand(7, 10, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    script = """async ([scores, temperature, name, convention]) => {
        const { distribution, localize, peak, toPixels } = await import("/static/distribution.js");
        const cell = localize(scores, temperature, name);
        const place = toPixels(cell, { width: 10, height: 7 }, { width: 300, height: 200 }, convention);
        return [place.x, place.y, peak(distribution(scores, temperature))];
    }"""
    for name in LOCALIZERS:
        for temperature in (0.02, 0.5):
            *place, top = page.evaluate(script, [scores.tolist(), temperature, name, convention])
            cell = localize(scores[None, None] / temperature, name)[0, 0]
            expected = resize_points(cell.double(), (7, 10), (200, 300), convention)  # type: ignore[arg-type]
            np.testing.assert_allclose(place, expected, atol=1e-6, err_msg=f"{name} at {temperature}")
            assert top == pytest.approx(float(peak_probability(scores[None, None], temperature)))


def test_everything_that_acts_has_a_name(page: Any) -> None:
    take_sample(page)
    click_source(page, 0.5, 0.5)
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, a")].filter((each) => !(
            each.getAttribute("aria-label") || each.getAttribute("aria-labelledby") ||
            each.textContent.trim() || each.labels?.length)).map((each) => each.outerHTML)"""
    )
    assert unnamed == []
    page.goto(page.url.rstrip("/") + "/docs")
    page.wait_for_selector("article")
    assert "/api/match" in page.locator("#paths").inner_text()


def test_verdicts_have_colours_shapes_and_words(page: Any) -> None:
    """The answers of a calibrated model: sure is green and full, unsure amber and hollow, none grey and crossed."""
    verdicts = iter(["sure", "unsure", "none"])

    def calibrated(route: Any) -> None:
        answer = route.fetch()
        content = answer.json()
        content["calibrated"], content["mirrored"] = True, True
        for match in content["matches"]:
            match["status"] = next(verdicts)
        route.fulfill(response=answer, json=content)

    page.route("**/api/match", calibrated)
    take_sample(page)
    for index in range(3):
        click_source(page, 0.3 + 0.15 * index, 0.5)
    sync_api.expect(page.locator("#target-stage .point.none")).to_have_count(1)
    colors = {"sure": "#009E73", "unsure": "#E69F00", "none": "#767676"}
    for side in ("source", "target"):
        for verdict, color in colors.items():
            marker = page.locator(f"#{side}-stage .point.{verdict}")
            found = marker.evaluate("element => getComputedStyle(element).getPropertyValue('--color').trim()")
            assert found.upper() == color.upper()
    hollow = page.locator("#target-stage .point.unsure").evaluate(
        "element => getComputedStyle(element).backgroundColor"
    )
    full = page.locator("#target-stage .point.sure").evaluate("element => getComputedStyle(element).backgroundColor")
    assert "rgba" in hollow
    assert full == "rgb(0, 158, 115)"
    assert [row[3].split()[-1] for row in rows(page)] == ["sure", "unsure", "none"]
    assert page.locator("#mirrored").is_visible()
    if folder := os.environ.get("SIMSC_SHOTS"):
        page.screenshot(path=f"{folder}/verdicts.png", full_page=True)


def test_the_mirror_is_sent_where_it_is_chosen(page: Any) -> None:
    take_sample(page)
    click_source(page, 0.5, 0.5)
    assert page.locator("#mirrored").is_hidden()
    with page.expect_request("**/api/match") as asked:
        page.select_option("#mirror", "yes")
    assert asked.value.post_data_json["mirror"] == "yes"
    sync_api.expect(page.locator("#mirrored")).to_be_visible(timeout=PATIENCE)
