"""The page in a real browser, used as a person would use it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from simsc.matching import LOCALIZERS

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'dev')")

PATIENCE = 60_000
Swipe = Callable[[Any, np.ndarray, tuple[float, float]], None]
BACKGROUND = "element => getComputedStyle(element).backgroundColor"

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def address(serve: Callable[[Any], str], small_matcher: Callable[[str], Any]) -> str:
    """A running server with two small models."""
    from simsc.web.app import create_app
    from simsc.web.settings import Settings

    settings = Settings(models={"first": "resnet50.v1_in1k", "second": "resnet50.tv_in1k"}, max_upload=2**20)
    return serve(create_app(settings, small_matcher))


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


def take_sample(page: Any) -> None:
    page.locator("#samples button").first.click()
    page.wait_for_selector("#target-stage .frame img")
    page.wait_for_selector("[data-side=source][aria-busy=false]")


def click_source(page: Any, x: float, y: float) -> None:
    """Click at a place given as a share of the image, and wait for the match."""
    before = page.locator("#target-stage .point").count()
    box = page.locator("#source-stage .frame").bounding_box()
    page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.wait_for_selector(f"#target-stage .point >> nth={before}")


def rows(page: Any) -> list[list[str]]:
    """Number, source, target, confidence, cycle error of each point."""
    texts = (line.locator("td").all_inner_texts() for line in page.locator("#points tbody tr").all())
    return [[number, *others] for number, _, *others in texts]


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
    assert plain["names"] == [page.locator(f"#{side}-name").inner_text().split(",")[0] for side in ("source", "target")]
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
    offered = page.locator("#localizer option").evaluate_all("all => all.map(each => each.value)")
    assert offered == ["", *LOCALIZERS]
    with page.expect_response(lambda answer: asked(answer, localizer="argmax")) as answer:
        page.locator("#localizer").select_option("argmax")
    assert answer.value.json()["localizer"] == "argmax"
    assert rows(page)[0][2] != first[2]
    page.get_by_label("Warped source").check()
    page.wait_for_selector("#target-stage .warp:not([hidden])")
    assert heat(page)[..., 3].max() == 0


def drop(page: Any, selector: str, files: dict[str, bytes]) -> None:
    script = """(box, files) => {
        const transfer = new DataTransfer();
        for (const [name, bytes] of files) transfer.items.add(new File([new Uint8Array(bytes)], name));
        box.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }"""
    page.locator(selector).evaluate(script, [[name, list(content)] for name, content in files.items()])


def test_dropped_files_and_refused_ones(page: Any, image_file: Callable[..., bytes]) -> None:
    page.expected_errors = ("415",)
    drop(page, "[data-side=target]", {"one.png": image_file(0), "two.png": image_file(1)})
    wait_for_text(page, "#source-name", "one.png")
    wait_for_text(page, "#target-name", "two.png")
    page.wait_for_selector("[data-side=source][aria-busy=false]")
    drop(page, "[data-side=source]", {"evil.png": b"not an image"})
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
    colors = {"sure": "#009E73", "unsure": "#E69F00", "none": "#666666"}
    for side in ("source", "target"):
        for verdict, color in colors.items():
            marker = page.locator(f"#{side}-stage .point.{verdict}")
            found = marker.evaluate("element => getComputedStyle(element).getPropertyValue('--color').trim()")
            assert found.upper() == color.upper()
    hollow = page.locator("#target-stage .point.unsure").evaluate(BACKGROUND)
    full = page.locator("#target-stage .point.sure").evaluate(BACKGROUND)
    assert "rgba" in hollow
    assert full == "rgb(0, 158, 115)"
    assert [row[3].split()[-1] for row in rows(page)] == ["sure", "unsure", "none"]
    assert page.locator("#mirrored").is_visible()
    assert page.locator("#verdicts").inner_text().split() == ["1", "sure", "1", "unsure", "1", "no", "counterpart"]
    for place in ("#verdicts .sign.sure", "#points .swatch.sure", "#target-stage .point.sure"):
        assert page.locator(place).evaluate(BACKGROUND) == full
    page.locator("#points tbody tr").nth(0).click()
    assert page.locator("#spread-chart span").first.evaluate(BACKGROUND) == full
    page.locator("#target-stage .point.none").hover()
    assert "none" in page.locator("#target-caption").inner_text()
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


def test_a_grid_of_points_covers_the_source(page: Any) -> None:
    take_sample(page)
    page.select_option("#grid", "4")
    page.wait_for_selector("#target-stage .point >> nth=11")
    width, height = (int(value) for value in re.findall(r"\d+", page.locator("#source-name").inner_text())[-2:])
    found = [[int(value) for value in row[1].split(", ")] for row in rows(page)]
    assert len(found) == 4 * round(4 * height / width)
    assert found[0] == pytest.approx([width / 8 - 0.5, height / (len(found) / 2) - 0.5], abs=0.6)
    page.select_option("#grid", "6")  # in place of the other one
    page.wait_for_selector("#target-stage .point >> nth=23")
    assert len(rows(page)) == 6 * round(6 * height / width)


def test_zoom_and_pan_keep_points_on_their_pixels(page: Any) -> None:
    take_sample(page)
    click_source(page, 0.5, 0.5)
    click_source(page, 0.3, 0.7)
    before = rows(page)
    frame = page.locator("#source-stage .frame").bounding_box()
    panel = page.locator("[data-side=source]").bounding_box()
    anchor = place_of(page, "source", 1)
    page.mouse.move(*anchor)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    page.wait_for_selector("#source-stage.zoomed")
    larger = page.locator("#source-stage .frame").bounding_box()
    assert larger["width"] == pytest.approx(4 * frame["width"], rel=0.02)
    assert page.locator("[data-side=source]").bounding_box() == pytest.approx(panel)
    np.testing.assert_allclose(place_of(page, "source", 1), anchor, atol=4)  # a whole pixel, enlarged
    assert rows(page) == before

    page.mouse.wheel(0, 60)  # without Ctrl, the wheel scrolls the image
    page.wait_for_function("y => document.querySelector('#source-stage .frame').getBoundingClientRect().y < y - 50",
                           arg=larger["y"])  # fmt: skip
    place = place_of(page, "source", 1) + np.array([40, 20])
    page.mouse.click(*place)
    page.wait_for_selector("#target-stage .point >> nth=2")
    np.testing.assert_allclose(place_of(page, "source", 2), place, atol=1)

    page.locator("[data-side=target] [data-zoom=in]").click()
    start = page.locator("#target-stage .frame").bounding_box()
    middle = page.locator("#target-stage").bounding_box()
    page.mouse.move(middle["x"] + middle["width"] / 2, middle["y"] + 40)
    page.mouse.down()
    page.mouse.move(middle["x"] + middle["width"] / 2 - 30, middle["y"] + 20, steps=3)
    page.mouse.up()
    moved = page.locator("#target-stage .frame").bounding_box()
    assert (moved["x"], moved["y"]) == pytest.approx((start["x"] - 30, start["y"] - 20), abs=2)
    page.locator("[data-side=source] [data-zoom=fit]").click()
    assert page.locator("#source-stage .frame").bounding_box() == pytest.approx(frame)


def test_undo_and_redo_of_points(page: Any) -> None:
    take_sample(page)
    assert page.locator("#undo").is_disabled()
    click_source(page, 0.3, 0.3)
    click_source(page, 0.6, 0.6)
    two = rows(page)
    start = place_of(page, "source", 1)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*(start + 30), steps=4)
    page.mouse.up()
    page.wait_for_load_state("networkidle")
    dragged = rows(page)
    assert dragged[1][1] != two[1][1]
    for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    page.keyboard.press("Control+z")  # three arrows are one step
    assert [row[1] for row in rows(page)] == [row[1] for row in dragged]
    page.keyboard.press("Control+z")
    assert [row[1] for row in rows(page)] == [row[1] for row in two]
    wait_for_rows(page, two)
    page.keyboard.press("Control+Shift+Z")
    assert [row[1] for row in rows(page)] == [row[1] for row in dragged]
    page.locator("#clear").click()
    assert rows(page) == []
    page.locator("#undo").click()
    assert [row[1] for row in rows(page)] == [row[1] for row in dragged]
    page.wait_for_selector("#target-stage .point >> nth=1")
    assert page.locator("#target-stage .point").count() == 2
    page.locator("#redo").click()
    assert rows(page) == []
    assert page.locator("#redo").is_disabled()


PASTE = """async ([bytes, name]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
    document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true }));
}"""


def test_a_pasted_image_goes_where_one_points_or_to_the_empty_side(page: Any, image_file: Callable[..., bytes]) -> None:
    page.mouse.move(5, 5)
    page.evaluate(PASTE, [list(image_file(0)), "first.png"])
    wait_for_text(page, "#source-name", "first.png, 80.60")
    page.evaluate(PASTE, [list(image_file(1)), "second.png"])
    wait_for_text(page, "#target-name", "second.png")
    page.wait_for_selector("[data-side=source][aria-busy=false]")
    page.locator("#source-stage").hover()
    page.evaluate(PASTE, [list(image_file(2)), "third.png"])
    wait_for_text(page, "#source-name", "third.png")
    assert "second.png" in page.locator("#target-name").inner_text()


def test_an_image_of_the_real_clipboard_is_pasted(page: Any, address: str, image_file: Callable[..., bytes]) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    page.evaluate(
        """bytes => navigator.clipboard.write([new ClipboardItem(
            { "image/png": new Blob([new Uint8Array(bytes)], { type: "image/png" }) })])""",
        list(image_file(3)),
    )
    page.keyboard.press("Control+v")
    wait_for_text(page, "#source-name", "80.60")


def test_points_have_names_that_go_into_exports(page: Any, tmp_path) -> None:
    take_sample(page)
    click_source(page, 0.4, 0.4)
    click_source(page, 0.6, 0.6)
    name = page.get_by_label("Name of point 1")
    name.fill("left ear")
    click_source(page, 0.2, 0.8)  # a match that arrives does not take the name away
    assert name.input_value() == "left ear"
    assert "left ear" in page.locator("#source-stage .point").first.get_attribute("aria-label")
    page.get_by_label("Name of point 3").fill("hoof")
    page.keyboard.press("Enter")
    page.locator("#target-stage .point").nth(0).hover()
    assert page.locator("#target-caption").inner_text().startswith("1 left ear: ")
    for form, read in (
        ("json", lambda found: [match["name"] for match in found["matches"]]),
        ("coco", lambda found: found["categories"][0]["keypoints"]),
    ):
        with page.expect_download() as download:
            page.locator(f"[data-export={form}]").click()
        download.value.save_as(tmp_path / form)
        assert read(json.loads((tmp_path / form).read_text())) == ["left ear", "2", "hoof"]
    page.locator("#undo").click()
    assert page.get_by_label("Name of point 3").input_value() == ""
    page.locator("#swap").click()
    wait_for_text(page, "#status", "swapped")
    assert page.get_by_label("Name of point 1").input_value() == "left ear"


def confidences(card: Any) -> list[float]:
    """As told when one points at the dots."""
    told = []
    for index in range(card.locator(".dot").count()):
        card.locator(".dot").nth(index).dispatch_event("pointerenter")
        told.append(float(card.locator(".pointed").inner_text().split(": ")[1]))
        card.locator(".dot").nth(index).dispatch_event("pointerleave")
    return told


def wait_for_wall(page: Any, cards: int, dots: int) -> None:
    page.wait_for_function(
        "([cards, dots]) => document.querySelectorAll('#wall .object').length === cards &&"
        " [...document.querySelectorAll('#wall .object')].every(each => each.querySelectorAll('.dot').length === dots)",
        arg=[cards, dots],
    )
    sync_api.expect(page.locator("#many-words")).to_be_empty(timeout=PATIENCE)


def test_many_targets_are_sorted_by_doubt_and_opened_by_a_click(page: Any, image_file: Callable[..., bytes]) -> None:
    take_sample(page)
    set_slider(page, "#temperature", 0)  # sharp, so that confidences differ
    click_source(page, 0.4, 0.4)
    click_source(page, 0.6, 0.6)
    drop(page, "#many", {f"{seed}.png": image_file(seed, (90, 120)) for seed in range(4)})
    wait_for_wall(page, 4, 2)
    sums = [sum(confidences(card)) for card in page.locator("#wall .object").all()]
    assert sums == sorted(sums)
    assert sums[0] < sums[-1]

    second = page.locator("#wall .object").nth(1)
    name, told = second.locator(".name").inner_text(), confidences(second)
    second.locator(".open").click()
    wait_for_text(page, "#target-name", name)
    page.wait_for_selector("#target-stage .point >> nth=1")
    assert [float(row[3].split()[0]) for row in rows(page)] == told
    assert page.locator("#wall .open[aria-pressed=true]").count() == 1

    click_source(page, 0.2, 0.3)  # the wall follows the points
    wait_for_wall(page, 4, 3)
    page.locator("#many-sample").click()
    page.wait_for_selector("#wall .object >> nth=4")
    page.get_by_label("Remove 0.png").click()
    assert page.get_by_label("Open 0.png as the target").count() == 0
    page.locator("#many-clear").click()
    assert page.locator("#wall .object").count() == 0
    assert not page.locator("#problem").is_visible()


def test_the_wall_has_verdict_colours(page: Any, image_file: Callable[..., bytes]) -> None:
    def calibrated(route: Any) -> None:
        answer = route.fetch()
        content = answer.json()
        content["calibrated"] = True
        for match, status in zip(content["matches"], ("sure", "unsure", "none"), strict=False):
            match["status"] = status
        route.fulfill(response=answer, json=content)

    page.route("**/api/match", calibrated)
    page.locator("#source-file").set_input_files(
        {"name": "source.png", "mimeType": "image/png", "buffer": image_file(9, (90, 120))}
    )
    wait_for_text(page, "#source-name", "source.png")
    drop(page, "[data-side=target]", {f"{seed}.png": image_file(seed, (90, 120)) for seed in range(3)})
    wait_for_text(page, "#target-name", "png")  # the first of them is opened
    page.wait_for_selector("[data-side=source][aria-busy=false]")
    for index in range(3):
        click_source(page, 0.3 + 0.15 * index, 0.5)
    wait_for_wall(page, 3, 3)
    for verdict in ("sure", "unsure", "none"):
        assert page.locator(f"#wall .object .dot.{verdict}").count() == 3
    counts = page.locator("#wall .counts").first.inner_text().split()
    assert counts == ["1", "sure", "1", "unsure", "1", "no", "counterpart"]


@pytest.mark.parametrize("forgotten", [False, True])
def test_everything_is_there_after_a_reload(page: Any, image_file: Callable[..., bytes], forgotten: bool) -> None:
    """Also where the server has been started anew and knows no image any more."""
    page.expected_errors = ("404",)
    for side, seed in (("source", 0), ("target", 1)):
        file = {"name": f"{side}.png", "mimeType": "image/png", "buffer": image_file(seed, (90, 120))}
        page.locator(f"#{side}-file").set_input_files(file)
        wait_for_text(page, f"#{side}-name", f"{side}.png")
    page.wait_for_selector("[data-side=source][aria-busy=false]")
    click_source(page, 0.4, 0.4)
    click_source(page, 0.6, 0.6)
    page.get_by_label("Name of point 2").fill("ear")
    page.keyboard.press("Enter")
    drop(page, "#many", {f"{seed}.png": image_file(seed, (90, 120)) for seed in (5, 6)})
    wait_for_wall(page, 2, 2)
    page.select_option("#model", "second")
    page.select_option("#localizer", "argmax")
    page.get_by_label("Nothing").check()
    set_slider(page, "#temperature", 300)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(600)
    before, temperature = rows(page), page.locator("#temperature-value").inner_text()
    if forgotten:
        page.evaluate(
            """() => Promise.all([...document.querySelectorAll(".frame > img:first-child")].map(
                (image) => fetch(image.src, { method: "DELETE" })))"""
        )
    page.reload()
    page.wait_for_selector("body[data-ready]")
    wait_for_wall(page, 2, 2)
    assert rows(page) == before
    assert page.get_by_label("Name of point 2").input_value() == "ear"
    assert page.locator("#temperature-value").inner_text() == temperature
    assert page.locator("#model").input_value() == "second"
    assert page.locator("#localizer").input_value() == "argmax"
    assert page.get_by_label("Nothing").is_checked()
    assert page.locator("#source-name").inner_text().startswith("source.png")
    shown = page.locator("#wall img").evaluate_all("all => all.map(each => each.naturalWidth)")
    assert min(shown) > 0
    assert not page.locator("#problem").is_visible()

    page.locator("#afresh").click()
    page.wait_for_selector("#source-stage .hint")
    page.wait_for_selector("body[data-ready]")
    assert page.locator(".frame").count() == 0


def test_an_image_that_cannot_come_back_is_said(page: Any) -> None:
    page.expected_errors = ("404",)
    take_sample(page)
    page.wait_for_timeout(400)
    page.locator(".frame > img:first-child").first.evaluate("image => fetch(image.src, { method: 'DELETE' })")
    page.route(
        "**/api/samples/*/0", lambda route: route.fulfill(status=404, json={"detail": "no such sample", "code": ""})
    )
    page.reload()
    wait_for_text(page, "#problem-text", "no such sample")


def test_the_page_fits_a_telephone(browser: Any, address: str) -> None:
    """390 pixels wide, with fingers: nothing sticks out, a tap puts a point, a point can be dragged."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    take_sample(page)
    page.locator("#keypoints").tap()
    page.wait_for_selector("#target-stage .point >> nth=2")
    count = page.locator("#source-stage .point").count()
    page.locator("#many-sample").tap()
    page.wait_for_selector("#wall .dot >> nth=5")
    page.get_by_label("Warped source").check()
    page.wait_for_selector(".warp:not([hidden])")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    out = page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter((each) => {
            const { width, right, left } = each.getBoundingClientRect();
            return width && !each.closest(".strip, .visually-hidden, .hidden-input") && (right > 390.5 || left < -0.5);
        }).map((each) => each.outerHTML.slice(0, 80))"""
    )
    assert out == []
    page.locator("#source-stage").scroll_into_view_if_needed()
    box = page.locator("#source-stage .frame").bounding_box()
    page.touchscreen.tap(box["x"] + 0.6 * box["width"], box["y"] + 0.1 * box["height"])
    page.wait_for_selector(f"#target-stage .point >> nth={count}")
    assert page.locator("#source-stage .point").count() == count + 1
    if folder := os.environ.get("SIMSC_SHOTS"):
        page.screenshot(path=f"{folder}/telephone.png", full_page=True)
    context.close()


@pytest.fixture
def telephone(browser: Any, address: str) -> Iterator[Any]:
    """The page on 390 x 844 pixels, with fingers, two points in the source."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    take_sample(page)
    set_slider(page, "#temperature", 0)  # sharp, so that matches move
    page.locator("#source-stage").scroll_into_view_if_needed()
    frame = page.locator("#source-stage .frame").bounding_box()
    for index, (x, y) in enumerate(((0.3, 0.4), (0.7, 0.5))):
        page.touchscreen.tap(frame["x"] + x * frame["width"], frame["y"] + y * frame["height"])
        page.wait_for_selector(f"#target-stage .point >> nth={index}")
    yield page
    context.close()
    assert errors == []


def scrolled(page: Any) -> float:
    return float(page.evaluate("scrollY"))


def wait_for_rows(page: Any, expected: list[list[str]]) -> None:
    """Until the table says what it should: an answer may still be on its way when the network is idle for a moment."""
    tries = PATIENCE // 100
    while tries and rows(page) != expected:
        page.wait_for_timeout(100)
        tries -= 1
    assert rows(page) == expected


def test_a_finger_drags_a_point_and_the_page_stays(telephone: Any, swipe: Swipe) -> None:
    start, match, height = place_of(telephone, "source"), place_of(telephone, "target"), scrolled(telephone)
    before = rows(telephone)
    swipe(telephone, start, (60, 50))
    np.testing.assert_allclose(place_of(telephone, "source"), start + np.array([60, 50]), atol=1.5)
    assert np.linalg.norm(place_of(telephone, "target") - match) > 0.5
    assert scrolled(telephone) == height
    assert len(rows(telephone)) == 2  # lifting the finger put no further point
    telephone.locator("#undo").tap()
    wait_for_rows(telephone, before)


def test_a_finger_beside_a_point_takes_it_along_without_a_jump(telephone: Any, swipe: Swipe) -> None:
    start = place_of(telephone, "source")
    swipe(telephone, start + np.array([14, -12]), (40, 30))
    np.testing.assert_allclose(place_of(telephone, "source"), start + np.array([40, 30]), atol=1.5)
    assert len(rows(telephone)) == 2


def test_of_two_close_points_a_finger_takes_the_nearer_one(telephone: Any, swipe: Swipe) -> None:
    first, second = place_of(telephone, "source", 0), place_of(telephone, "source", 1)
    swipe(telephone, second, tuple(first + np.array([24, 0]) - second))
    swipe(telephone, first, (0, 40))
    np.testing.assert_allclose(place_of(telephone, "source", 0), first + np.array([0, 40]), atol=1.5)
    np.testing.assert_allclose(place_of(telephone, "source", 1), first + np.array([24, 0]), atol=1.5)


def test_a_finger_on_the_image_scrolls_the_page_and_puts_no_point(telephone: Any, swipe: Swipe) -> None:
    frame, height = telephone.locator("#source-stage .frame").bounding_box(), scrolled(telephone)
    swipe(telephone, np.array([frame["x"] + 20, frame["y"] + 0.9 * frame["height"]]), (0, -100))
    assert scrolled(telephone) > height + 30
    assert len(rows(telephone)) == 2


def test_what_is_told_of_a_point_covers_no_match(page: Any) -> None:
    take_sample(page)
    page.select_option("#grid", "6")
    page.wait_for_selector("#target-stage .point >> nth=20")
    for index in (0, 14, 29):
        marker = page.locator("#target-stage .point").nth(index)
        marker.hover(force=True)
        told = page.locator("#target-caption")
        assert re.search(r"\d+, \d+ · [\d.]+ · cycle error", told.inner_text())
        covered = page.evaluate(
            """() => {
                const boxes = [...document.querySelectorAll(".caption")].map((each) => each.getBoundingClientRect());
                return [...document.querySelectorAll(".point")].filter((point) => {
                    const { left, right, top, bottom } = point.getBoundingClientRect();
                    return boxes.some((box) =>
                        left < box.right && box.left < right && top < box.bottom && box.top < bottom);
                }).length;
            }"""
        )
        assert covered == 0
    assert page.locator(".point[title], .frame [title]").count() == 0


def test_the_warped_source_fades_without_an_edge(page: Any) -> None:
    take_sample(page)
    page.get_by_label("Warped source").check()
    page.wait_for_selector("#target-stage .warp:not([hidden])")
    alpha = """image => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        return [canvas.height, canvas.width, ...data.filter((_, index) => index % 4 === 3)];
    }"""
    height, width, *values = page.locator("#target-stage .warp").evaluate(alpha)
    shown = np.array(values).reshape(height, width)
    assert len(np.unique(shown)) > 20
    assert max(np.abs(np.diff(shown, axis=axis)).max() for axis in (0, 1)) < 40
    with page.expect_request("**/api/warp") as asked:
        page.get_by_label("Fade where matches are doubtful").uncheck()
    assert asked.value.post_data_json["blend"] is False
    wait_for_text(page, "#status", "warped")
