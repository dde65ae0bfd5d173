"""Real processes: killed and resumed, and two that work together."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from simsc.training.config import Config

WORKER = Path(__file__).with_name("worker.py")


def start(task: str, config: Config, root: Path, out: Path, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(WORKER), task, json.dumps(config.to_dict()), str(root), str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "SIMSC_HOME": str(out.parent / "home"), **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def start_group(task: str, config: Config, root: Path, out: Path) -> list[subprocess.Popen]:
    """Two processes with the environment that torchrun gives them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [start(task, config, root, out, RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(2)]


def finish(*processes: subprocess.Popen) -> list[str]:
    errors = [process.communicate(timeout=240)[1] for process in processes]
    for process, error in zip(processes, errors, strict=True):
        assert process.returncode == 0, error
    return errors


def metrics(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def alone(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Path]:
    """An uninterrupted run of one process; pairs of a batch share images, so two processes may hold the same one."""
    out = tmp_path_factory.mktemp("alone") / "run"
    config = Config(
        weights="random", data="pairs", image_size=64, epochs=2, batch_size=4, log_every=1, checkpoint_minutes=1e-9,
        trainable="last-2", freeze_batchnorm=False, average=0.9, clip=5.0,
    )  # fmt: skip
    finish(start("train", config, tiny_root, out))
    return config, out


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights(alone, tiny_root: Path, tmp_path: Path) -> None:
    config, expected = alone
    out = tmp_path / "run"
    process = start("train", config, tiny_root, out, TEST_SLEEP="0.5")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (out / "last.safetensors").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (out / "result.json").exists()
    finish(start("resume", config, tiny_root, out))
    ours, theirs = load_file(out / "last.safetensors"), load_file(expected / "last.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert [line["step"] for line in metrics(out)] == [line["step"] for line in metrics(expected)]


@pytest.mark.slow
def test_two_processes_train_and_evaluate_as_one(alone, tiny_root: Path) -> None:
    config, expected = alone
    out = expected.parent / "two"
    finish(*start_group("train", config, tiny_root, out))
    for ours, theirs in zip(metrics(out), metrics(expected), strict=True):
        for key in {"loss", "temperature", "beta_source", "rate"} & theirs.keys():
            assert ours[key] == pytest.approx(theirs[key], rel=1e-4), key
        assert ours.get("val") == pytest.approx(theirs.get("val"))
    one, two = (load_file(folder / "last.safetensors") for folder in (expected, out))
    moved = [name for name in one if "running_" in name and not torch.equal(one[name], two[name])]
    for name in moved:
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-5)
    assert list((out.parent / "home" / "trunk").rglob("*.safetensors"))
    finish(start("evaluate", config, tiny_root, out))
    finish(*start_group("evaluate", config, tiny_root, out))
    one, two = (json.loads((out / f"evaluated-{count}.json").read_text()) for count in (1, 2))
    assert one["per_image"] == two["per_image"]
    assert one["per_category"] == two["per_category"]
    assert one["pairs"] == two["pairs"] == 5


@pytest.mark.slow
def test_a_lost_process_ends_the_run_with_a_message_and_resume_continues(alone, tiny_root: Path) -> None:
    config, expected = alone
    out = expected.parent / "lost"
    processes = start_group("die", replace(config, epochs=1), tiny_root, out)
    errors = [process.communicate(timeout=240)[1] for process in processes]
    assert processes[1].returncode == 7
    assert processes[0].returncode != 0
    assert "PeerLostError" in errors[0]
    assert "another process of this run has ended" in errors[0]
    finish(start("resume", config, tiny_root, out))
    assert metrics(out)[-1]["epoch"] == 2
