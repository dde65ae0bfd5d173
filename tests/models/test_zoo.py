"""Models by name, file or folder."""

from __future__ import annotations

import shutil

import pytest

from simsc.errors import ConfigError, WeightsError
from simsc.models import zoo
from simsc.models.checkpoints import build_model, save_model


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    description = {"backbone": "resnet50", "temperature": "fixed:0.02"}
    path = tmp_path_factory.mktemp("zoo") / "own.safetensors"
    save_model(build_model(description, weights=None), path, description, half=True)
    return path


def test_a_file_and_a_run_folder_open(model_file, tmp_path):
    shutil.copy(model_file, tmp_path / "best.safetensors")
    for name in (model_file, str(model_file), tmp_path):
        assert zoo.open_model(name).temperature_name == "fixed:0.02"


def test_packaged_models_are_found_by_name(model_file, tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "packaged_folder", lambda: tmp_path)
    with pytest.raises(WeightsError, match="no packaged model"):
        zoo.find_model()
    shutil.copy(model_file, tmp_path / f"{zoo.DEFAULT}.safetensors")
    assert zoo.find_model() == zoo.find_model(zoo.DEFAULT) == tmp_path / f"{zoo.DEFAULT}.safetensors"


def test_a_backbone_name_is_no_file():
    assert zoo.find_model("resnet50") is None
    assert zoo.find_model("hf:some/repository") is None


def test_a_misspelt_name_is_refused_with_a_hint(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'resnet50'"):
        zoo.find_model("resnet5O")
    with pytest.raises(WeightsError, match="holds no best"):
        zoo.find_model(tmp_path)
    with pytest.raises(WeightsError, match="no such model file"):
        zoo.open_model(tmp_path / "absent.safetensors")


@pytest.mark.skipif(zoo.DEFAULT not in zoo.packaged_models(), reason="the packaged model is not in this installation")
def test_the_packaged_model_opens():
    assert zoo.open_model().backbone.stride == 16
