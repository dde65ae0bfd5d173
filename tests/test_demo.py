"""The demonstration end to end in a tiny form, and its report, which is one self-contained page."""

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import simsc.demo as demo
from simsc.demo import Section, write_page
from simsc.models.trained import Trained


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A model of random weights for small images, and hardly any steps."""
    description = {"backbone": "resnet50", "temperature": "mlp", "trainable": "last-block", "image_size": 64}
    Trained.begin({**description, "weights": None}).save(tmp_path / "model.safetensors")
    monkeypatch.setattr(demo, "MODEL", str(tmp_path / "model.safetensors"))
    monkeypatch.setattr(demo, "STEPS", 2)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kind", ["photograph", "rendered scene"])
def test_demo_matches_warps_labels_adapts_and_reports(tmp_path, monkeypatch, kind):
    if kind == "rendered scene":
        monkeypatch.setattr(demo, "PHOTOS", tmp_path / "nowhere")
        monkeypatch.setattr(demo, "SCENES", 5)
    elif not demo.PHOTOS.is_dir():
        pytest.skip("the source distribution leaves the photographs out")
    objects, found = demo.find_objects()
    assert found == kind
    said = []
    page = demo.run_demo(tmp_path / "demo", epochs=1, say=said.append).read_text(encoding="utf-8")
    labelled = [one for one in objects if one.category == "quadruped"]
    held_out = {pair.target.key for pair in demo.hold_out(objects, 0).validation}
    pictures = 2 + 1 + len(labelled) + 1  # matches, warp, labels, curves
    gained = page.count(">before</figcaption>")
    assert gained == page.count(">after</figcaption>") <= len(held_out)
    assert page.count("data:image/jpeg") == pictures + 2 * gained
    assert f"One {kind} labelled by hand, {len(labelled) - 1} others" in page
    assert "10% of the larger side" in page
    assert any(re.match(r"PCK@0.1 on what was held out: [\d.]+ before, [\d.]+ after", line) for line in said)


def test_right_is_within_a_tenth_of_the_larger_side(tiny_pairs):
    shifts = np.array([(3.9, 0.0), (0.0, 4.1)])
    points = {side: getattr(tiny_pairs[0], side)[:2] for side in ("source_points", "target_points")}
    pair = replace(tiny_pairs[0], **points, point_names=(), target_box=[0, 0, 40, 20])
    assert demo._correct(pair, pair.target_points + shifts).tolist() == [True, False]


def test_only_pairs_that_gained_are_shown_before_and_after(tiny_pairs, monkeypatch):
    pairs = tiny_pairs[:3]
    wrong = [pair.target_points + 1000 for pair in pairs]
    better = [wrong[0], pairs[1].target_points, pairs[2].target_points]
    monkeypatch.setattr(demo, "_found", lambda found, _: found)
    shown = demo._before_and_after(wrong, better, pairs).pictures
    gained = {pair.target.key for pair in pairs[1:]}
    assert [caption for caption, _ in shown] == ["before", "after"] * len(gained)
    assert not demo._before_and_after(better, wrong, pairs).pictures


def test_page_holds_tables_and_pictures_without_outside_requests(tmp_path):
    section = Section(
        "A & B", "text <b>", table=[["", "x"], ["row", "1.5"]], pictures=[("one", Image.new("RGB", (4, 3)))]
    )
    page = write_page(tmp_path / "report.html", [section]).read_text(encoding="utf-8")
    assert "A &amp; B" in page
    assert "text &lt;b&gt;" in page
    assert "<td>1.5</td>" in page
    assert page.count("data:image/jpeg;base64,") == 1
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "<script" not in page
