"""Models by name, file or folder."""

from __future__ import annotations

import shutil
from functools import partial

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


@pytest.mark.parametrize(
    ("name", "head", "temperature"),
    [
        ("resnet50", "none", "fixed:0.03"),
        ("resnet50.v1_in1k+hpf", "hpf", "fixed:0.05"),
        ("resnet50+scot:layers=7-9-11", "scot:layers=7-9-11", "fixed:0.05"),
        ("resnet50+ncnet", "ncnet", "fixed:0.03"),
    ],
)
def test_a_backbone_carries_a_head(name, head, temperature, monkeypatch):
    monkeypatch.setattr(zoo, "build_model", partial(build_model, weights=None))
    model = zoo.open_model(name)
    assert (model.head_name, model.temperature_name) == (head, temperature)
    assert not model.training
    assert zoo.find_model(name) is None


def test_a_head_is_refused_where_it_does_not_belong(model_file, tmp_path):
    shutil.copy(model_file, tmp_path / "best.safetensors")
    for name in (f"{model_file}+hpf", f"{tmp_path}+hpf"):
        with pytest.raises(ConfigError, match="trained model, which keeps the head"):
            zoo.find_model(name)
    for name, message in {
        "resnet50+hfp": "unknown head 'hfp'; did you mean 'hpf'.*Allowed: none, sfnet, ncnet, cats, hpf, scot",
        "resnet50+": "unknown head ''",
        "resnet50+hpf:layer=3": "did you mean 'layers'",
        "resnet5O+hpf": "did you mean 'resnet50'",
    }.items():
        with pytest.raises(ConfigError, match=message):
            zoo.find_model(name)


def test_a_path_may_hold_the_mark_of_a_head(model_file, tmp_path):
    path = tmp_path / "a+b" / "own.safetensors"
    path.parent.mkdir()
    shutil.copy(model_file, path)
    assert zoo.find_model(path) == path


@pytest.mark.skipif(zoo.DEFAULT not in zoo.packaged_models(), reason="the packaged model is not in this installation")
def test_the_packaged_model_opens():
    assert zoo.open_model().backbone.stride == 16
