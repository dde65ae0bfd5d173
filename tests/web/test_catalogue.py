"""Which models are offered, and the command that serves them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from simsc.cli import app
from simsc.errors import ConfigError
from simsc.models import DEFAULT
from simsc.web.catalogue import describe, label, offered_models


def test_labels_are_short_and_unique(tmp_path) -> None:
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "best.safetensors").touch()
    names = [str(tmp_path / "one"), str(tmp_path / "one" / "best.safetensors"), str(tmp_path / "two"), "resnet50"]
    assert list(offered_models(names)) == ["one", "one (2)", "two", "resnet50"]
    assert label("resnet50") == "resnet50"


def test_a_misspelt_model_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        offered_models(["resnet5o"])


def test_without_any_model_the_user_is_told_what_to_do(monkeypatch) -> None:
    monkeypatch.setattr("simsc.web.catalogue.packaged_models", dict)
    monkeypatch.setattr("simsc.web.catalogue.find_weights", lambda spec: None)
    with pytest.raises(ConfigError, match="--model"):
        offered_models()


def test_the_packaged_default_comes_first(monkeypatch, tmp_path) -> None:
    for name in ("another", DEFAULT):
        (tmp_path / f"{name}.safetensors").touch()
    monkeypatch.setattr("simsc.models.card.packaged_folder", lambda: tmp_path)
    monkeypatch.setattr("simsc.web.catalogue.find_weights", lambda spec: None)
    assert list(offered_models()) == [DEFAULT, "another"]


def test_backbones_are_told_from_trained_models(tmp_path) -> None:
    (tmp_path / "m.safetensors").touch()
    assert "pre-trained" in describe("resnet50")
    assert "trained with SimSC" in describe(str(tmp_path / "m.safetensors"))


def test_a_backbone_is_offered_with_a_head() -> None:
    names = ["resnet50", "resnet50+hpf", "resnet50+scot:layers=7-9-11"]
    assert offered_models(names) == {name: name for name in names}
    assert describe("resnet50+hpf") == "pre-trained features, head hpf, constant temperature"
    with pytest.raises(ConfigError, match="unknown head"):
        offered_models(["resnet50+hfp"])


def test_serve_binds_to_this_machine_by_default(monkeypatch) -> None:
    seen = {}
    monkeypatch.setattr("uvicorn.run", lambda app, **options: seen.update(options, app=app))
    result = CliRunner().invoke(app, ["serve", "--model", "resnet50", "--max-upload", "3"])
    assert result.exit_code == 0, result.output
    assert (seen["host"], seen["port"]) == ("127.0.0.1", 8000)
    settings = seen["app"].state.service.settings
    assert settings.max_upload == 3 * 2**20
    assert not settings.any_address
    assert "everyone" not in result.output


def test_serve_warns_when_others_can_reach_it(monkeypatch) -> None:
    seen = {}
    monkeypatch.setattr("uvicorn.run", lambda app, **options: seen.update(app=app))
    result = CliRunner().invoke(
        app, ["serve", "--model", "resnet50", "--host", "0.0.0.0", "--allow-host", "Box.Example"]
    )
    assert "everyone who can reach this address" in result.output
    settings = seen["app"].state.service.settings
    assert settings.allows_host("10.0.0.5:8000")
    assert settings.allows_host("box.example")
    assert not settings.allows_host("evil.example")


def test_serve_names_the_missing_extra(monkeypatch) -> None:
    monkeypatch.setattr("simsc.cli.serve.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["serve"])
    assert "simsc[web]" in str(result.exception)
