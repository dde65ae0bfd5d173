"""Devices and seeds that cannot be had are refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from simsc import distributed
from simsc.errors import ConfigError
from simsc.evaluation.benchmark import load_for_evaluation
from simsc.training.config import Config
from simsc.training.trainer import Trainer

REFUSED = r"device 'gpu' is not available; allowed: auto, cpu, cuda, mps"


def test_a_device_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=REFUSED):
        distributed.local_device("gpu")
    with pytest.raises(ConfigError, match=REFUSED):
        load_for_evaluation("resnet50", device="gpu")
    with pytest.raises(ConfigError, match=REFUSED):
        Trainer(Config(data="scenes"), tmp_path / "run", device="gpu")


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert distributed.local_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert distributed.local_device() == torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    assert distributed.local_device() == torch.device("cpu")


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_are_those_of_numpy(seed: int) -> None:
    with pytest.raises(ConfigError, match=rf"seed = {seed} is not allowed; allowed: 0 to 4294967295"):
        Config(seed=seed)
    assert Config(seed=2**32 - 1).seed == 2**32 - 1
