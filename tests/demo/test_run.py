"""The demonstration end to end, in a tiny form."""

import pytest

from simsc.demo import run
from simsc.models.checkpoints import build_model, save_model


@pytest.mark.slow
def test_demo_matches_adapts_and_reports(tmp_path, monkeypatch):
    description = {"backbone": "resnet50", "temperature": "mlp", "trainable": "last-block"}
    save_model(build_model(description, weights=None), tmp_path / "model.safetensors", description)
    monkeypatch.setattr(run, "DEFAULT", str(tmp_path / "model.safetensors"))
    monkeypatch.setattr(run, "ADAPTATION", {**run.ADAPTATION, "backbone": "resnet50", "max_pairs": 4, "image_size": 64})
    pairs = run.load_pairs("scenes", None, "test")[:2]
    monkeypatch.setattr(run, "load_pairs", lambda *_: pairs)
    monkeypatch.setattr("simsc.training.trainer.load_pairs", lambda *_: pairs)
    said = []
    report = run.run_demo(tmp_path / "demo", epochs=1, say=said.append)
    page = report.read_text(encoding="utf-8")
    assert "before adaptation" in page
    assert "after adaptation" in page
    assert page.count("data:image/png") >= 3  # one pair before and after, and the curves
    assert any("PCK@0.1 after" in line for line in said)
