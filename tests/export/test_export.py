"""ONNX files that compute what PyTorch computes."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from simsc.cli import app
from simsc.errors import ConfigError
from simsc.matcher import Matcher
from simsc.models.backbone import from_spec
from simsc.models.model import SimSC
from simsc.models.specs import find_backbone
from simsc.models.trained import Trained

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from simsc.export import onnx
from simsc.export.graphs import MatcherGraph, sample_inputs
from simsc.export.onnx import ExportError, export_onnx, open_session
from simsc.export.runtime import OnnxEncoder, fingerprint


@pytest.fixture(scope="module")
def matcher_file(color_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "matcher.onnx"
    return path, export_onnx(color_model, path, part="matcher", size=(64, 64))


def test_the_matcher_takes_any_number_of_points_and_pairs(color_model, matcher_file):
    path, written = matcher_file
    assert max(written.differences.values()) <= 1e-4
    session, graph = open_session(path), MatcherGraph(Trained.of(color_model))
    for batch, points in ((1, 1), (4, 11)):
        source, target, query = sample_inputs(graph, (64, 64), batch, points, seed=3)
        feed = {"source": source.numpy(), "target": target.numpy(), "points": query.numpy()}
        with torch.inference_mode():
            expected = graph(source, target, query)
        for actual, wanted in zip(session.run(None, feed), expected, strict=True):
            np.testing.assert_allclose(actual, wanted.numpy(), atol=1e-3)


def test_the_matcher_computes_at_the_evaluation_temperature_and_with_the_localizer_of_the_model(color_model, tmp_path):
    flat = copy.deepcopy(color_model)
    flat.set_temperature("fixed:1")
    trained = Trained.of(flat).described(beta_eval=0.005, localizer="window-soft-argmax")
    export_onnx(trained, tmp_path / "matcher.onnx", size=(64, 64))
    source, target, query = sample_inputs(MatcherGraph(trained), (64, 64), batch=1, points=6, seed=3)
    source, target = ((255 * image).round() / 255 for image in (source, target))  # as in an image file
    feed = {"source": source.numpy(), "target": target.numpy(), "points": query.numpy()}
    matches, confidence, temperature = open_session(tmp_path / "matcher.onnx").run(None, feed)
    expected = Matcher(trained, size=64, device="cpu").match(source[0], target[0], query[0])
    np.testing.assert_allclose(matches[0], expected.points, atol=0.05)
    np.testing.assert_allclose(confidence[0], expected.confidence, atol=1e-2)
    assert temperature == pytest.approx(0.005)


def test_the_check_notices_a_graph_that_forgets_how_the_model_is_used(color_model, matcher_file, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "_trace", lambda graph, path, size, free_size: shutil.copy(matcher_file[0], path))
    for change in ({"beta_eval": 20.0}, {"localizer": "soft-argmax"}):
        with pytest.raises(ExportError, match="differs from PyTorch"):
            export_onnx(Trained.of(color_model).described(**change), tmp_path / "x.onnx", size=(64, 64))
    export_onnx(color_model, tmp_path / "x.onnx", size=(64, 64))


def test_a_file_that_differs_is_not_written(color_model, matcher_file, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "_trace", lambda graph, path, size, free_size: shutil.copy(matcher_file[0], path))
    with pytest.raises(ExportError, match="differs from PyTorch"):
        export_onnx(color_model, tmp_path / "x.onnx", size=(64, 64), tolerance=-1)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_part_is_refused(color_model, tmp_path):
    with pytest.raises(ConfigError, match="encoder, matcher"):
        export_onnx(color_model, tmp_path / "x.onnx", part="decoder")


def test_the_fingerprint_follows_the_weights(color_model):
    other = copy.deepcopy(color_model)
    assert fingerprint(other) == fingerprint(color_model)
    other.backbone.bias.data[0] += 1
    assert fingerprint(other) != fingerprint(color_model)


def test_a_matcher_on_onnx_runtime_agrees_with_torch(color_model, mosaic, tmp_path, monkeypatch):
    monkeypatch.setenv("SIMSC_HOME", str(tmp_path))
    image = mosaic()
    query = [(7.5, 7.5), (100, 30)]
    slow = Matcher(color_model, device="cpu").match(image, image[::-1], query)
    for _ in range(2):  # exported, then taken from the cache
        matcher = Matcher(color_model, device="cpu", runtime="onnx")
        fast = matcher.match(image, image[::-1], query)
        np.testing.assert_allclose(fast.points, slow.points, atol=1e-2)
    elsewhere = pickle.loads(pickle.dumps(matcher)).match(image, image[::-1], query)  # as to another process
    np.testing.assert_array_equal(elsewhere.points, fast.points)
    assert len(list((tmp_path / "onnx").iterdir())) == 1


def test_the_command_writes_and_reports(color_model, tmp_path, monkeypatch):
    monkeypatch.setattr(Trained, "open", lambda name: Trained.of(copy.deepcopy(color_model)))
    out = tmp_path / "encoder.onnx"
    arguments = ["export", "--part", "encoder", "--size", "64", "--out", str(out), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert max(json.loads(result.stdout)["differences"].values()) <= 1e-4
    assert out.stat().st_size > 1000


@pytest.mark.slow
def test_a_resnet_takes_images_of_any_size(tmp_path):
    spec = find_backbone("resnet50")
    small = {**spec.settings, "depths": (1, 1, 1), "widths": (16, 32, 64), "stem": 8}
    backbone = from_spec(replace(spec, settings=small, channels=64, blocks=3))
    model = SimSC(backbone, temperature="mlp", trainable="none").eval()
    encoder = OnnxEncoder(model, tmp_path)
    for size in ((64, 64), (96, 48)):
        images = torch.rand(1, 3, *size)
        with torch.inference_mode():
            expected = model.encode(images)
        found = encoder(images)
        torch.testing.assert_close(found.maps, expected.maps, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(found.beta, expected.beta, rtol=1e-4, atol=1e-5)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["vit_small_patch14.dinov2_reg4", "vit_small_patch16.dinov3"])
def test_a_transformer_with_finer_features_takes_any_number_of_pairs(name, tmp_path):
    spec = find_backbone(name)
    spec = replace(spec, channels=24, blocks=3, settings={**spec.settings, "heads": 2})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = SimSC(from_spec(spec), temperature="fixed:0.05", trainable="none", head="upsampled").eval()
    side = 4 * spec.stride
    written = export_onnx(
        model, tmp_path / "vit.onnx", size=(side, side)
    )  # checked with a batch it was not traced with
    assert max(written.differences.values()) <= 1e-4
