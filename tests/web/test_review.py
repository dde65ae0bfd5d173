"""The review of transferred key-points: the file that it keeps, and the page in a real browser."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the extra 'web' is not installed")

from fastapi.testclient import TestClient

from simsc.data.catalog import DATASETS
from simsc.errors import DataError
from simsc.training.adapt import without_doubt
from simsc.web.review import Correction, ReviewFile, create_review_app
from simsc.web.settings import Settings

TELEPHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SCORES = {1: [0.9, 0.8, 0.9], 2: [0.9, 0.2, 0.3]}


@pytest.fixture
def labels(tmp_path):
    """Two objects; the second is the doubtful one, with an absent third point."""
    document = {
        "images": [{"id": i, "file_name": f"{i}.png", "width": 80, "height": 60} for i in (1, 2)],
        "categories": [{"id": 4, "name": "cat", "keypoints": ["nose", "ear", "tail"], "skeleton": []}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 4, "keypoints": [10, 10, 2, 30, 20, 2, 60, 40, 2],
             "keypoint_scores": SCORES[1]},
            {"id": 2, "image_id": 2, "category_id": 4, "keypoints": [10, 10, 2, 40, 30, 1, 0, 0, 0],
             "keypoint_scores": SCORES[2]},
        ],
    }  # fmt: skip
    for number in (1, 2):
        Image.fromarray(np.full((60, 80, 3), 90 * number, np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "labels.json").write_text(json.dumps(document))
    return tmp_path / "labels.json"


@pytest.fixture
def review(labels):
    return ReviewFile(labels, labels.with_name("labels.reviewed.json"))


@pytest.fixture
def client(review):
    return TestClient(create_review_app(review, Settings()), base_url="http://localhost")


def saved(labels) -> dict[int, dict[str, Any]]:
    document = json.loads(labels.with_name("labels.reviewed.json").read_text())
    return {item["id"]: item for item in document["annotations"]}


def test_a_correction_is_written_at_once_and_the_file_of_the_transfer_stays(client, labels):
    before = labels.read_text()
    answer = client.put("/api/review/2", json={"keypoints": [10, 10, 2, 44, 31, 2, 0, 0, 0]})
    assert answer.status_code == 204
    assert saved(labels)[2]["keypoints"][3:6] == [44, 31, 2]
    assert saved(labels)[2]["keypoint_scores"] == [0.9, 1.0, 0.3]
    assert saved(labels)[1]["keypoint_scores"] == SCORES[1]
    assert labels.read_text() == before


def test_a_review_is_continued_where_it_was_left(client, labels):
    client.put("/api/review/2", json={"keypoints": [10, 10, 2, 44, 31, 2, 0, 0, 0], "settled": True})
    again = ReviewFile(labels, labels.with_name("labels.reviewed.json")).view()
    assert [each["settled"] for each in again["objects"]] == [False, True]


def test_corrected_points_are_learned_and_doubtful_ones_not(client, labels):
    client.put("/api/review/1", json={"keypoints": [10, 10, 2, 30, 20, 2, 60, 40, 2], "settled": True})
    path = labels.with_name("labels.reviewed.json")
    one, two = without_doubt(DATASETS["coco"].objects(path, "test"), path)
    assert one.present.tolist() == [True, True, True]
    assert two.present.tolist() == [True, False, False]


@pytest.mark.parametrize("values", [[1, 2, 2], [1, 2, 3] * 3])
def test_what_cannot_be_key_points_is_refused(client, labels, values):
    assert client.put("/api/review/2", json={"keypoints": values}).status_code == 400
    assert not labels.with_name("labels.reviewed.json").exists()


def test_what_somebody_labelled_is_settled_until_it_is_said_not_to_be(labels):
    document = json.loads(labels.read_text())
    first, second = document["annotations"]
    first |= {"keypoints": [10, 10, 2, 30, 20, 2, 0, 0, 0], "keypoint_scores": [1.0, 1.0, 0.0]}
    second |= {"keypoints": [0] * 9, "keypoint_scores": [0.0, 0.1, 0.0]}
    del (third := {**first, "id": 3})["keypoint_scores"]
    document["annotations"].append(third)
    labels.write_text(json.dumps(document))
    review = ReviewFile(labels, labels.with_name("out.json"))
    assert [each["settled"] for each in review.view()["objects"]] == [True, False, False]
    review.correct(1, Correction(keypoints=first["keypoints"], settled=False))
    assert not review.view()["objects"][0]["settled"]


def test_unknown_objects_and_images_are_refused(client):
    assert client.put("/api/review/9", json={"keypoints": [0] * 9}).status_code == 404
    assert client.get("/api/review/images/9").status_code == 404
    assert client.get("/api/review/images/1").headers["content-type"] == "image/jpeg"


def test_corrections_in_another_folder_are_refused(labels, tmp_path):
    with pytest.raises(DataError, match="must lie in the folder"):
        ReviewFile(labels, tmp_path / "elsewhere" / "out.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"keypoints": [1, 2]}, "keypoints: expected a list of 3 finite numbers"),
        ({"keypoints": ["1", "2", "2"]}, "keypoints: expected a list of 3 finite numbers"),
        ({"keypoint_scores": [0.5]}, "keypoint_scores: expected 3 finite numbers"),
        ({"image_id": 9}, "its image or its category is not in the file"),
        ({"category_id": [1]}, "not a COCO file"),
        ({"id": "one"}, "'id' must be a whole number"),
    ],
)
def test_what_the_page_could_not_show_is_refused(labels, change, words):
    document = json.loads(labels.read_text())
    document["annotations"][0] |= change
    labels.write_text(json.dumps(document))
    with pytest.raises(DataError, match=words):
        ReviewFile(labels, labels.with_name("out.json"))


@pytest.fixture
def page(request, review, browser, serve):
    """The open page; a test may ask for another screen."""
    screen = getattr(request, "param", {"viewport": {"width": 1000, "height": 700}})
    page = browser.new_context(**screen).new_page()
    page.set_default_timeout(60_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(serve(create_review_app(review, Settings())))
    page.wait_for_selector("body[data-ready]")
    yield page
    page.context.close()
    assert errors == []


def wait_saved(page: Any, count: int) -> None:
    page.wait_for_selector(f"body[data-saved='{count}']")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_doubtful_first_drag_place_delete_settle_undo_and_reload(page: Any, labels) -> None:
    assert [each.get_attribute("data-id") for each in page.locator(".object").all()] == ["2", "1"]
    first = page.locator(".object").first
    assert first.locator(".dot.unsure").count() == 1
    first.locator(".dot.unsure").hover()
    assert first.locator(".caption").inner_text() == "ear"  # below the image, where it covers no point
    frame = first.locator(".frame").bounding_box()
    scale = frame["width"] / 80

    dot = first.locator(".dot.unsure").bounding_box()
    page.mouse.move(dot["x"] + 8, dot["y"] + 8)
    page.mouse.down()
    page.mouse.move(frame["x"] + 20.5 * scale, frame["y"] + 40.5 * scale, steps=3)
    page.mouse.up()
    wait_saved(page, 1)
    np.testing.assert_allclose(saved(labels)[2]["keypoints"][3:6], [20, 40, 2], atol=0.6)

    first.get_by_role("button", name="Place tail").click()
    page.mouse.click(frame["x"] + 70.5 * scale, frame["y"] + 50.5 * scale)
    wait_saved(page, 2)
    np.testing.assert_allclose(saved(labels)[2]["keypoints"][6:], [70, 50, 2], atol=0.6)

    first.locator(".dot[data-index='0']").focus()
    page.keyboard.press("Delete")
    wait_saved(page, 3)
    assert saved(labels)[2]["keypoints"][:3] == [0, 0, 0]
    page.keyboard.press("Control+z")
    wait_saved(page, 4)
    assert saved(labels)[2]["keypoints"][:3] == [10, 10, 2]
    page.locator("#redo").click()
    wait_saved(page, 5)
    page.locator("#undo").click()
    wait_saved(page, 6)

    first.get_by_role("button", name="All right").click()
    wait_saved(page, 7)
    assert saved(labels)[2]["reviewed"]
    assert page.locator("#progress").inner_text() == "1 of 2 settled, 0 unsure points left"
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#progress").inner_text() == "1 of 2 settled, 0 unsure points left"
    assert page.locator(".object").last.get_attribute("data-id") == "2"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("page", [TELEPHONE], indirect=True)
def test_fingers_are_enough_on_a_telephone(page: Any, labels, swipe) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    corrected = labels.with_name("labels.reviewed.json")
    assert page.locator("#next").inner_text() == f"Then: simsc adapt {corrected} --out my-model"
    card = page.locator(".object").first
    gone, ear = card.get_by_role("button", name="Not there"), card.locator(".dot[data-index='1']")
    assert gone.is_disabled()
    scale = card.locator(".frame").bounding_box()["width"] / 80
    box = ear.bounding_box()
    # Taken hold of beside its centre, it goes as far as the finger.
    swipe(page, np.array([box["x"] + box["width"] / 2 + 6, box["y"] + box["height"] / 2 - 5]), (60, 45))
    wait_saved(page, 1)
    assert page.evaluate("scrollY") == 0
    np.testing.assert_allclose(saved(labels)[2]["keypoints"][3:6], [40 + 60 / scale, 30 + 45 / scale, 2], atol=0.3)

    assert card.locator(".dot.chosen").get_attribute("data-index") == "1"

    card.locator(".dot[data-index='0']").tap()
    assert card.locator(".dot.chosen").get_attribute("data-index") == "0"
    assert card.locator(".pointed").inner_text() == "nose"
    assert not page.locator("body[data-saved='2']").count()  # a tap moves nothing
    card.get_by_role("button", name="Not there: nose").tap()
    wait_saved(page, 2)
    assert saved(labels)[2]["keypoints"][:3] == [0, 0, 0]
    assert gone.is_disabled()
    card.get_by_role("button", name="Place nose").tap()
    frame = card.locator(".frame").bounding_box()
    page.touchscreen.tap(frame["x"] + 20.5 * scale, frame["y"] + 12.5 * scale)
    wait_saved(page, 3)
    np.testing.assert_allclose(saved(labels)[2]["keypoints"][:3], [20, 12, 2], atol=0.6)

    other = page.locator(".object").last
    other.locator(".dot[data-index='2']").tap()
    assert page.locator(".dot.chosen").count() == 1
    assert gone.is_disabled()
    assert other.get_by_role("button", name="Not there: tail").is_enabled()
