"""The demonstration end to end in a tiny form, and its report, which is one self-contained page."""

import re

import pytest
from PIL import Image

import simsc.demo as demo
from simsc.demo import Section, write_page
from simsc.models.trained import Trained


@pytest.mark.slow
def test_demo_matches_adapts_and_reports(tmp_path, monkeypatch):
    description = {"backbone": "resnet50", "temperature": "mlp", "trainable": "last-block"}
    Trained.begin({**description, "weights": None}).save(tmp_path / "model.safetensors")
    monkeypatch.setattr(demo, "QUICK", str(tmp_path / "model.safetensors"))
    monkeypatch.setattr(
        demo, "ADAPTATION", {**demo.ADAPTATION, "backbone": "resnet50", "max_pairs": 4, "image_size": 64}
    )
    pairs = demo.load_pairs("scenes", None, "test")[:2]
    monkeypatch.setattr(demo, "load_pairs", lambda *_: pairs)
    monkeypatch.setattr("simsc.scenes.dataset.load_pairs", lambda *_: pairs)
    said = []
    report = demo.run_demo(tmp_path / "demo", epochs=1, say=said.append)
    page = report.read_text(encoding="utf-8")
    assert "before adaptation" in page
    assert "after adaptation" in page
    assert page.count("data:image/png") >= 3  # one pair before and after, and the curves
    assert any("PCK@0.1 after" in line for line in said)


def test_page_holds_tables_and_pictures_without_outside_requests(tmp_path):
    section = Section(
        "A & B", "text <b>", table=[["", "x"], ["row", "1.5"]], pictures=[("one", Image.new("RGB", (4, 3)))]
    )
    page = write_page(tmp_path / "report.html", [section]).read_text(encoding="utf-8")
    assert "A &amp; B" in page
    assert "text &lt;b&gt;" in page
    assert "<td>1.5</td>" in page
    assert page.count("data:image/png;base64,") == 1
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "<script" not in page
