"""The API does what the matcher does, at any temperature."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

from simsc.matcher import DenseFlow, Matcher
from simsc.matcher.flow import HalfFlow
from simsc.matching import LOCALIZERS
from simsc.matching.localize import localize
from simsc.web import samples
from simsc.web.answers import opacity, to_coco
from simsc.web.schemas import MatchResponse
from simsc.web.store import StoredImage


def ask(client, source, target, points, **options):
    answer = client.post("/api/match", json={"source": source, "target": target, "points": points, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


POINTS = [[10.0, 12.0], [70.5, 40.25], [0.0, 59.0]]


def test_the_answer_is_that_of_the_matcher(client, send, image_file, small_matcher) -> None:
    source, target = send(0), send(1, (90, 50))
    answer = ask(client, source, target, POINTS)
    expected = small_matcher("resnet50.v1_in1k").match(image_file(0), image_file(1, (90, 50)), POINTS)
    found = [match["target"] for match in answer["matches"]]
    np.testing.assert_allclose(found, expected.points, atol=2e-3)
    np.testing.assert_allclose([m["confidence"] for m in answer["matches"]], expected.confidence, atol=1e-5)
    np.testing.assert_allclose([m["cycle_error"] for m in answer["matches"]], expected.cycle_error, atol=2e-3)
    assert answer["temperature"] == pytest.approx(expected.temperature)
    assert answer["learned"]
    assert answer["target"] == {"width": 50, "height": 90}
    assert answer["model"] == "first"


def test_an_image_matches_itself_when_sharp(client, send) -> None:
    image = send(0)
    answer = ask(client, image, image, [[42.0, 33.0]], temperature=1e-3, localizer="window-soft-argmax")
    np.testing.assert_allclose(answer["matches"][0]["target"], [42.0, 33.0], atol=6)
    assert answer["temperature"] == pytest.approx(1e-3)
    assert answer["model_temperature"] > 0.1


def test_the_page_counts_the_evaluation_temperature(make_client, settings, send, image_file, small_matcher) -> None:
    """Models that learned no temperature, such as those of the preset ``beta1``, are matched at a stored one."""
    model = small_matcher("resnet50.v1_in1k").model
    model.set_temperature("fixed:1")
    matcher = Matcher(model, beta_eval=0.02, device="cpu")
    client = make_client(settings, opener=lambda name: matcher)
    source, target = send(0, to=client), send(1, to=client)
    own, asked = (ask(client, source, target, POINTS, temperature=t, scores=True) for t in (None, 0.05))
    expected = matcher.match(image_file(0), image_file(1), POINTS)
    assert own["temperature"] == own["model_temperature"] == pytest.approx(expected.temperature) == pytest.approx(0.02)
    assert (asked["temperature"], asked["model_temperature"]) == (pytest.approx(0.05), pytest.approx(0.02))
    for one, other in zip(own["matches"], asked["matches"], strict=True):
        np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-4)
    at = Matcher(model, beta_eval=0.05, device="cpu").match(image_file(0), image_file(1), POINTS)
    np.testing.assert_allclose([match["target"] for match in asked["matches"]], at.points, atol=2e-3)


@pytest.mark.parametrize("localizer", list(LOCALIZERS))
def test_scores_give_the_match_at_any_temperature(client, send, localizer: str) -> None:
    """What the page does with its slider: the similarities are enough."""
    import torch

    source, target = send(0), send(1)
    similarities = ask(client, source, target, [[20.0, 20.0]], scores=True)["matches"][0]["scores"]
    assert np.abs(similarities).max() <= 1 + 1e-4
    at = ask(client, source, target, [[20.0, 20.0]], temperature=0.05, localizer=localizer)
    cells = localize(torch.tensor(similarities)[None, None] / 0.05, localizer)[0, 0].numpy()
    pixels = (cells + 0.5) * np.array([80, 60]) / 8 - 0.5
    np.testing.assert_allclose(at["matches"][0]["target"], pixels, atol=0.05)
    assert at["cells"] == {"width": 8, "height": 8}


def test_confidence_falls_as_the_temperature_rises(client, send) -> None:
    source, target = send(0), send(1)
    confidences = [
        ask(client, source, target, [[30, 30]], temperature=t)["matches"][0]["confidence"] for t in (0.001, 0.05, 1)
    ]
    assert confidences == sorted(confidences, reverse=True)
    assert confidences[0] > 2 * confidences[2]


def test_models_differ_and_only_offered_ones_are_loaded(client, send) -> None:
    source, target = send(0), send(1)
    listed = client.get("/api/models").json()
    assert [(model["name"], model["default"]) for model in listed] == [("first", True), ("second", False)]
    found = [ask(client, source, target, POINTS, model=name)["matches"] for name in ("first", "second")]
    assert found[0] != found[1]
    refused = client.post(
        "/api/match", json={"source": source, "target": target, "points": POINTS, "model": "/etc/passwd"}
    )
    assert refused.status_code == 404
    assert "first, second" in refused.json()["detail"]


def test_each_image_is_encoded_once_per_model(client, send, monkeypatch) -> None:
    seen = []
    encode = Matcher.encode
    monkeypatch.setattr(Matcher, "encode", lambda self, image: seen.append(1) or encode(self, image))
    source, target = send(0), send(1)
    assert client.post(f"/api/images/{source}/encode").status_code == 204
    for _ in range(3):
        ask(client, source, target, POINTS)
    assert len(seen) == 2
    ask(client, source, target, POINTS, model="second")
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"points": [[80.0, 5.0]]}, 400, "outside of the source image of 80x60 pixels"),
        ({"points": []}, 422, "points"),
        ({"points": [[1.0]]}, 422, "points.0"),
        ({"points": [[1.0, 2.0]] * 501}, 422, "points"),
        ({"points": [[1.0, 2.0]] * 65, "scores": True}, 400, "at most 64 points"),
        ({"points": [["x", 2]]}, 422, "points.0.0"),
        ({"temperature": 0}, 422, "temperature"),
        ({"localizer": "agrmax"}, 422, "localizer"),
        ({"pionts": [[1, 1]]}, 422, "pionts"),
    ],
)
def test_senseless_requests_are_refused_in_one_sentence(client, send, change, status, words) -> None:
    request = {"source": send(0), "target": send(1), "points": [[1.0, 1.0]]} | change
    answer = client.post("/api/match", json=request)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


def test_not_a_number_is_refused(client, send) -> None:
    body = json.dumps({"source": send(0), "target": send(1), "points": [[float("nan"), 1.0]]})
    answer = client.post("/api/match", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert "finite" in answer.json()["detail"]


def test_two_files_in_one_request_keep_nothing(client, image_file, send) -> None:
    files = {"source": ("a.png", image_file(0)), "target": ("b.png", image_file(1))}
    answer = client.post("/api/match-images", files=files, data={"points": json.dumps(POINTS), "temperature": "0.05"})
    assert answer.status_code == 200, answer.text
    assert client.get("/api/health").json()["images"] == 0
    kept = ask(client, send(0), send(1), POINTS, temperature=0.05)
    assert answer.json()["matches"] == kept["matches"]
    wrong = client.post("/api/match-images", files=files, data={"points": "[[1,"})
    assert wrong.status_code == 422
    none = client.post("/api/match-images", files=files, data={"points": "[]"})
    assert none.status_code == 400


def test_warp_has_the_shape_of_the_target(client, send) -> None:
    source, target = send(0), send(1, (90, 50))
    request = {"source": source, "target": target}
    answer = client.post("/api/warp", json=request)
    assert answer.headers["content-type"] == "image/png"
    image = Image.open(io.BytesIO(answer.content))
    assert (image.size, image.mode) == ((50, 90), "RGBA")
    whole = Image.open(io.BytesIO(client.post("/api/warp", json={**request, "blend": False}).content))
    assert whole.mode == "RGB"


def half(shift: np.ndarray, confidence: np.ndarray, cycle: np.ndarray) -> HalfFlow:
    return HalfFlow(shift, confidence, cycle, size=(160, 160), other=(160, 160))


def test_a_warp_fades_smoothly_where_matches_cannot_be_trusted() -> None:
    """Columns 0-3 are fine; of 4-7 matches are not confident, of 8-11 do not lead back, 12-15 fly apart."""
    shape = (16, 16)
    confidence, cycle, shift = np.full(shape, 0.5), np.zeros(shape), np.zeros((*shape, 2))
    confidence[:, 4:8] = 0.01
    cycle[:, 8:12] = 60.0
    shift[:, 12:, 0] = 60.0 * np.arange(1, 5)
    backward = half(shift, confidence, cycle)
    alpha = opacity(DenseFlow(backward, backward, temperature=0.05, max_cycle=16.0)).astype(int)
    assert alpha.shape == (160, 160)
    assert alpha[:, :15].min() > 240
    assert alpha[:, 60:].max() < 25
    assert np.abs(np.diff(alpha, axis=1)).max() <= 12  # no edge to be seen
    assert len(np.unique(alpha)) > 50


def test_warp_of_a_large_image_is_reduced(make_client, settings, send) -> None:
    from dataclasses import replace

    client = make_client(replace(settings, max_pixels=4_000_000, max_upload=20 * 2**20))
    source, target = send(0, to=client), send(1, (1000, 2048), to=client)
    image = Image.open(io.BytesIO(client.post("/api/warp", json={"source": source, "target": target}).content))
    assert image.size == (1024, 500)


def test_exports(client, send) -> None:
    request = {"source": send(0), "target": send(1), "points": POINTS, "temperature": 0.05}
    matches = ask(client, **request)["matches"]
    plain = client.post("/api/export/json", json=request)
    assert 'filename="matches.json"' in plain.headers["content-disposition"]
    assert [match["target"] for match in plain.json()["matches"]] == [match["target"] for match in matches]
    coco = client.post("/api/export/coco", json=request).json()
    assert [len(each["keypoints"]) for each in coco["annotations"]] == [9, 9]
    assert coco["annotations"][1]["keypoints"][:2] == matches[0]["target"]
    assert coco["images"][0] == {"id": 1, "file_name": "picture.png", "width": 80, "height": 60}
    drawn = Image.open(io.BytesIO(client.post("/api/export/png", json=request).content))
    assert drawn.format == "PNG"
    assert drawn.width > drawn.height
    named = Image.open(io.BytesIO(client.post("/api/export/png", json={**request, "names": ["ear", "", "3"]}).content))
    assert named.height > drawn.height  # names are listed below, numbers are not
    assert named.crop((0, 0, *drawn.size)).tobytes() == drawn.tobytes()
    assert client.post("/api/export/exe", json=request).status_code == 422


def test_exported_coco_marks_what_a_calibrated_model_doubts(client, send) -> None:
    plain = MatchResponse(**ask(client, source=send(0), target=send(1), points=POINTS))
    matches = [
        match.model_copy(update={"status": status, "target": (x, 2.0 * x)})
        for match, status, x in zip(plain.matches, ("unsure", "none", "sure"), (10, 90, 30), strict=True)
    ]
    image = StoredImage("id", "picture.png", np.zeros((60, 80, 3), np.uint8))
    doubted = plain.model_copy(update={"matches": matches, "calibrated": True})
    source, target = to_coco(doubted, image, image)["annotations"]
    assert source["keypoints"][2::3] == [2, 2, 2]
    assert target["keypoints"] == [10, 20, 1, 0, 0, 0, 30, 60, 2]
    assert (target["num_keypoints"], target["bbox"]) == (2, [10, 20, 20, 40])
    uncalibrated = plain.model_copy(update={"matches": matches})
    assert to_coco(uncalibrated, image, image)["annotations"][1]["keypoints"][2::3] == [2, 2, 2]
    nothing = doubted.model_copy(update={"matches": [matches[1]]})
    assert to_coco(nothing, image, image)["annotations"][1]["bbox"] == [0, 0, 0, 0]


def test_exported_coco_is_read_as_a_data_set(client, send, tmp_path) -> None:
    from simsc.data.readers.coco import keypoints_of

    request = {"source": send(0), "target": send(1), "points": POINTS}
    coco = client.post("/api/export/coco", json=request).json()
    points, present = keypoints_of(coco["annotations"][0], 3, "export")
    np.testing.assert_allclose(points[present], POINTS)


def test_localizers_of_the_api_are_those_of_the_package(client) -> None:
    field = client.get("/openapi.json").json()["components"]["schemas"]["MatchRequest"]["properties"]["localizer"]
    assert field["anyOf"][0]["enum"] == client.get("/api/localizers").json() == list(LOCALIZERS)
    refused = client.post("/api/match", json={"source": "a", "target": "b", "points": POINTS, "localizer": "agrmax"})
    assert refused.status_code == 422
    assert "did you mean 'argmax'" in refused.json()["detail"]


def test_names_of_points_go_into_answers_and_exports(client, send) -> None:
    request = {"source": send(0), "target": send(1), "points": POINTS, "names": ["nose", "", "  left ear "]}
    names = ["nose", "2", "left ear"]
    assert [match["name"] for match in ask(client, **request)["matches"]] == names
    assert [match["name"] for match in client.post("/api/export/json", json=request).json()["matches"]] == names
    assert client.post("/api/export/coco", json=request).json()["categories"][0]["keypoints"] == names
    for wrong, words in ((["nose"], "1 of them, but 3 points"), (["a", "b", "a"], "two points are called 'a'")):
        answer = client.post("/api/match", json={**request, "names": wrong})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad-request")
        assert words in answer.json()["detail"]


@pytest.mark.parametrize("photographs", [True, False])
def test_samples_are_the_photographs_of_a_clone_or_else_scenes(client, monkeypatch, tmp_path, photographs) -> None:
    monkeypatch.setattr(samples, "PHOTOS", samples.PHOTOS if photographs else tmp_path)
    if not samples.PHOTOS.is_dir():
        pytest.skip("no photographs here: not a clone")
    listed = {sample["name"]: sample for sample in client.get("/api/samples").json()}
    name, kind = ("donkey", ".jpg") if photographs else ("chair", ".png")
    assert listed[name]["pictures"] >= 6
    source, target = (client.post(f"/api/samples/{name}/{number}").json() for number in (0, 1))
    assert source["name"].endswith(kind)
    assert len(source["points"]) == len(source["point_names"]) >= 3
    assert len(ask(client, source["id"], target["id"], source["points"])["matches"]) == len(source["points"])
    thumbnail = Image.open(io.BytesIO(client.get(f"/api/samples/{name}/1").content))
    assert max(thumbnail.size) == 128
    assert client.post("/api/samples/unicorn/0").json()["code"] == "not-found"
    assert client.post(f"/api/samples/{name}/99").json()["code"] == "not-found"


def test_every_picture_of_every_sample_is_there() -> None:
    for name, sample in samples.offered_samples().items():
        sizes = [max(samples.sample_picture(name, number, 64).pixels.shape) for number in range(len(sample.members))]
        assert min(sizes) >= 64


def test_the_mirror_image_is_encoded_once_more_and_said(client, send, image_file, small_matcher, monkeypatch) -> None:
    seen = []
    encode = Matcher.encode

    def counted(self: Matcher, image, **options):
        if isinstance(image, np.ndarray):
            seen.append(1)
        return encode(self, image, **options)

    monkeypatch.setattr(Matcher, "encode", counted)
    source, target = send(0), send(1)
    plain, mirrored, again = (ask(client, source, target, POINTS, mirror=m) for m in ("no", "yes", "auto"))
    assert len(seen) == 3  # two images and one mirror image
    assert (plain["mirrored"], mirrored["mirrored"]) == (False, True)
    expected = small_matcher("resnet50.v1_in1k").match(image_file(0), image_file(1), POINTS, mirror="yes")
    np.testing.assert_allclose([match["target"] for match in mirrored["matches"]], expected.points, atol=2e-3)
    assert again["matches"] in (plain["matches"], mirrored["matches"])
    request = {"source": source, "target": target, "points": POINTS, "mirror": "yes"}
    assert client.post("/api/export/coco", json=request).json()["annotations"][1]["mirrored"] is True
    pair = {key: request[key] for key in ("source", "target", "mirror")}
    assert client.post("/api/warp", json=pair).status_code == 200
    assert client.post("/api/match", json={**request, "mirror": "perhaps"}).status_code == 422


def test_every_match_has_a_status(client, send) -> None:
    answer = ask(client, send(0), send(1), POINTS)
    assert answer["calibrated"] is False
    assert {match["status"] for match in answer["matches"]} == {"unsure"}
