"""Models on disk."""

import pytest
import torch
from safetensors.torch import load_file

from simsc.errors import WeightsError
from simsc.models.checkpoints import build_model, load_model, read_description, save_model

DESCRIPTION = {"backbone": "resnet50", "temperature": "mlp", "trainable": "last-block"}


@pytest.fixture(scope="module")
def model():
    return build_model(DESCRIPTION, weights=None, seed=1).eval()


def test_a_model_comes_back_as_it_was(model, tmp_path):
    save_model(model, tmp_path / "m.safetensors", {**DESCRIPTION, "note": 3})
    again = load_model(tmp_path / "m.safetensors")
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    assert read_description(tmp_path / "m.safetensors")["note"] == 3


def test_half_precision_keeps_statistics_that_float16_cannot_hold(model, tmp_path):
    name, variance = next(item for item in model.named_buffers() if item[0].endswith("running_var"))
    variance.fill_(90_000.0)
    save_model(model, tmp_path / "half.safetensors", DESCRIPTION, half=True)
    stored = load_file(tmp_path / "half.safetensors")
    assert stored[name].max() == 90_000.0
    assert all(value.isfinite().all() for value in stored.values())
    assert any(value.dtype == torch.float16 for value in stored.values())
    variance.fill_(1.0)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"no")
    with pytest.raises(WeightsError, match="not a readable safetensors file"):
        load_model(tmp_path / "x.safetensors")
    with pytest.raises(WeightsError, match="no such model file"):
        load_model(tmp_path / "missing.safetensors")
