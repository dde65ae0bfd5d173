"""Runs that start from the packaged model, because the weights they ask for cannot be had."""

import pytest

from simsc.errors import DownloadError, SimscError
from simsc.models.card import Card, packaged_models
from simsc.models.trained import Trained
from simsc.training.config import Config
from simsc.training.starting import available_start


@pytest.fixture(autouse=True)
def _nothing_here(tmp_path, monkeypatch):
    for variable in ("SIMSC_HOME", "SIMSC_SHARED"):
        monkeypatch.setenv(variable, str(tmp_path))

    def unreachable(*_, **__):
        raise DownloadError("no network")

    monkeypatch.setattr("simsc.models.weights.download", unreachable)


@pytest.fixture
def packaged():
    path = packaged_models()["simsc-resnet50"]
    return Card.read(path).design, path


def test_the_whole_model_is_taken_where_it_is_of_the_same_kind(packaged):
    design = packaged[0]
    config, notes = available_start(Config(backbone=design.backbone, head=design.head))
    assert config.start == "simsc-resnet50"
    assert len(notes) == 1
    assert "starts from the packaged model simsc-resnet50" in notes[0]
    Trained.begin(config.to_dict())


def test_its_backbone_is_taken_where_the_temperature_is_another(packaged):
    config, _ = available_start(Config(backbone=packaged[0].backbone, temperature="single"))
    assert (config.start, config.weights) == ("", str(packaged[1]))
    Trained.begin(config.to_dict())


def test_another_backbone_is_not_replaced():
    with pytest.raises(SimscError, match=r"no network|cannot be downloaded"):
        available_start(Config(backbone="resnet101.tv_in1k"))


def test_what_was_asked_for_is_left_alone():
    for config in (Config(weights="random"), Config(start="simsc-resnet50"), Config(weights="some.pth")):
        assert available_start(config) == (config, ())
