"""Devices and seeds that cannot be had are refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from simsc import distributed
from simsc.cli import app
from simsc.devices import pick_precision
from simsc.errors import ConfigError
from simsc.training.config import Config
from simsc.training.trainer import Trainer

REFUSED = r"device 'gpu' is not available; allowed: auto, cpu, cuda, mps"


def test_a_device_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=REFUSED):
        distributed.local_device("gpu")
    refused = CliRunner().invoke(app, ["evaluate", "--model", "resnet50", "--device", "gpu"])
    with pytest.raises(ConfigError, match=REFUSED):
        raise refused.exception
    with pytest.raises(ConfigError, match=REFUSED):
        Trainer(Config(data="scenes"), tmp_path / "run", device="gpu")


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert distributed.local_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert distributed.local_device() == torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    assert distributed.local_device() == torch.device("cpu")


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The second of two processes on a machine with two GPUs; records what it joins and which GPU it takes."""
    joined: dict[str, object] = {}
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: joined.update(device=device))
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda backend, **_: joined.update(backend=backend))
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    return joined


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_each_process_has_a_gpu_of_its_own(second_of_two: dict[str, object], name: str) -> None:
    with distributed.process_group(name):
        assert distributed.local_device(name) == torch.device("cuda", 1)
    assert second_of_two == {"device": torch.device("cuda", 1), "backend": "nccl"}


def test_processes_on_the_cpu_talk_without_gpus(second_of_two: dict[str, object]) -> None:
    with distributed.process_group("cpu"):
        assert distributed.local_device("cpu") == torch.device("cpu")
    assert second_of_two == {"backend": "gloo"}


def test_more_processes_than_gpus_are_refused(second_of_two: dict[str, object], monkeypatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ConfigError, match="process 3 of this machine has no GPU, for there are 2"):
        distributed.local_device("cuda")


@pytest.mark.parametrize(("backend", "place"), [("gloo", "cpu"), ("nccl", "cuda")])
def test_sums_travel_by_what_the_processes_talk_with(monkeypatch, backend: str, place: str) -> None:
    """With GPUs in the machine and ``--device cpu`` a sum must not be moved to a GPU."""
    moved = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: backend)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor: None)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, target, copy: moved.append(str(target)) or self.clone())
    distributed.sum_over_processes(torch.zeros(2))
    assert moved == [place]


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_are_those_of_numpy(seed: int) -> None:
    with pytest.raises(ConfigError, match=rf"seed = {seed} is not allowed; allowed: 0 to 4294967295"):
        Config(seed=seed)
    assert Config(seed=2**32 - 1).seed == 2**32 - 1


def test_auto_is_bf16_only_where_the_processor_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    for able, expected in (({"avx512_bf16": True}, torch.bfloat16), ({"avx512_bf16": False}, None), ({}, None)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=able: able, raising=False)
        assert pick_precision("auto", cpu) is expected
        assert pick_precision("float32", cpu) is None
        assert pick_precision("bf16", cpu) is torch.bfloat16


def test_a_precision_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="precision 'fp8'"):
        pick_precision("fp8", torch.device("cpu"))
