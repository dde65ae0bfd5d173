"""Runs that continue from a trained model."""

import pytest
import torch

from simsc.errors import ConfigError
from simsc.models.checkpoints import build_model, save_model
from simsc.training.config import Config
from simsc.training.starting import starting_model

DESCRIPTION = {"backbone": "resnet50", "temperature": "mlp", "trainable": "last-block"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "model.safetensors"
    model = build_model(DESCRIPTION, weights=None, seed=5)
    save_model(model, path, DESCRIPTION)
    return path, model


def test_a_run_starts_with_all_weights_of_the_model(trained):
    path, model = trained
    started = starting_model(Config(backbone="resnet50", start=str(path)))
    expected = model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in started.state_dict().items())


def test_a_model_of_another_kind_is_refused(trained):
    path, _ = trained
    with pytest.raises(ConfigError, match="not of this configuration's kind"):
        starting_model(Config(backbone="resnet50", temperature="single", start=str(path)))
