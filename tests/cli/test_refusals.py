"""Whatever the system or a file refuses, the command line says one sentence and ends with code 2."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simsc.errors import ConfigError

PREDICTION = {
    "pair": "a", "category": "cat", "source": "a", "target": "b", "source_points": [[1, 2]], "target_points": [[3, 4]],
    "predicted": [[3, 5]], "confidence": [0.5], "temperature": 0.1, "source_size": [50, 60], "target_size": [50, 60],
    "target_box": [0, 0, 20, 30], "protocol": "original", "threshold": "img",
}  # fmt: skip


def simsc(*arguments: object, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simsc", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings})


def refused(run: subprocess.CompletedProcess[str]) -> str:
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr
    (line,) = run.stderr.strip().splitlines()
    assert line.startswith("simsc: ")
    return line


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(PREDICTION) + "\n")
    return path


@pytest.mark.parametrize(
    ("out", "words"),
    [("folder", "is a folder"), ("p.jsonl/x.json", "is not a folder"), ("n" * 300, "name is too long")],
)
def test_outputs_that_cannot_be(predictions: Path, out: str, words: str) -> None:
    (predictions.parent / "folder").mkdir()
    assert words in refused(simsc("score", predictions, "--out", predictions.parent / out))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(predictions: Path) -> None:
    predictions.parent.chmod(0o500)
    assert "no permission" in refused(simsc("score", predictions, "--out", predictions.parent / "x.json"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_disk_full(predictions: Path) -> None:
    program = f"""
import sys
from pathlib import Path
sys.argv = ["simsc", "score", {str(predictions)!r}, "--out", {str(predictions.parent / "x.json")!r}]
write = Path.write_text
Path.write_text = lambda self, text, encoding=None: write(Path("/dev/full"), text)
from simsc.cli import main
main()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "no space left" in refused(run)
    assert [path.name for path in predictions.parent.iterdir()] == ["p.jsonl"]


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_predictions_are_regular_files(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(simsc("score", tmp_path / "pipe" if kind == "pipe" else "/dev/zero"))


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_points_are_regular_files(tmp_path: Path, kind: str) -> None:
    from PIL import Image

    Image.new("RGB", (32, 32)).save(tmp_path / "a.png")
    os.mkfifo(tmp_path / "pipe")
    points = tmp_path / "pipe" if kind == "pipe" else Path("/dev/zero")
    found = simsc("match", tmp_path / "a.png", tmp_path / "a.png", "--points-file", points)
    assert "not a regular file" in refused(found)


def test_a_cache_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    refused(simsc("data", "download", "pfwillow", SIMSC_HOME=str(tmp_path / "cache"), SIMSC_SHARED=str(tmp_path)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"predicted": [["3", "5"]]}, "predicted: expected a list of 2 finite numbers"),
        ({"predicted": [[3, 5], [1, 2]]}, "must have the same length"),
        ({"confidence": None}, "confidence: expected 1 finite"),
        ({"temperature": "x"}, "temperature: expected 1 finite"),
        ({"source_size": [0, 5]}, "source_size: expected height and width"),
        ({"target_box": [1]}, "target_box: expected 4 finite"),
        ({"category": 5}, "'category' must be a text"),
        ({"protocol": [1]}, "'protocol' must be a text"),
        ({"threshold": "nose"}, "nose"),
        ({"temperature": float("nan")}, "'temperature' is not a finite number"),
    ],
)
def test_predictions_are_checked_field_by_field(tmp_path: Path, change: dict[str, object], words: str) -> None:
    from simsc.errors import SimscError
    from simsc.evaluation.predictions import read_predictions
    from simsc.evaluation.protocol import find_protocol
    from simsc.evaluation.scoring import score, stated_rules

    (tmp_path / "p.jsonl").write_text(json.dumps({**PREDICTION, **change}))
    with pytest.raises(SimscError, match=words):
        _score(tmp_path / "p.jsonl", read_predictions, find_protocol, score, stated_rules)


def _score(path: Path, read: object, protocol: object, score: object, rules: object) -> None:
    found = read(path)  # type: ignore[operator]
    name, threshold = rules(found)  # type: ignore[operator]
    score(found, protocol(name), threshold)  # type: ignore[operator]


@pytest.mark.slow
def test_sigterm_ends_cleanly_from_the_first_moment(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "simsc",
        "train",
        "--data",
        "scenes",
        "--out",
        tmp_path / "run",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    errors = ""
    while "simsc.training" not in errors:  # heavy imports have begun
        errors += process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 60
    rest = process.stderr.read()
    assert process.wait(max(deadline - time.monotonic(), 1)) == 128 + signal.SIGTERM
    assert "Traceback" not in rest


HOLD = """
import sys, time
from contextlib import ExitStack
from pathlib import Path
from simsc.files import Lock
with ExitStack() as stack:
    for name in sys.argv[1:]:
        stack.enter_context(Lock(name, folder=not Path(name).suffix))
    print("held", flush=True)
    time.sleep(600)
"""
OUTPUTS = {
    "match": ["match", "a.png", "a.png", "--grid", "2", "--out", "held.json"],
    "match --picture": ["match", "a.png", "a.png", "--grid", "2", "--picture", "held.png"],
    "warp": ["warp", "a.png", "a.png", "--out", "held.png"],
    "evaluate": ["evaluate", "--data", "scenes", "--limit", "1", "--predictions", "held.json"],
    "score": ["score", "p.jsonl", "--out", "held.json"],
    "calibrate": ["calibrate", "--data", "scenes", "--report", "held.json"],
    "export": ["export", "--out", "held.onnx"],
    "models average": ["models", "average", "simsc-resnet50", "--out", "held.safetensors"],
    "bulk": ["bulk", ".", "--out", "held"],
    "index": ["index", ".", "--out", "held"],
    "review": ["review", "coco.json", "--out", "held.json"],
}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A folder with inputs, and outputs that another process writes."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("held")
    Image.new("RGB", (32, 32)).save(folder / "a.png")
    (folder / "p.jsonl").write_text(json.dumps(PREDICTION) + "\n")
    (folder / "coco.json").write_text("{}")
    names = [f"held{ending}" for ending in (".json", ".png", ".onnx", ".safetensors", "")]
    command = [sys.executable, "-c", HOLD, *names]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield folder, process.pid
        process.kill()


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_output_has_one_owner(held: tuple[Path, int], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from simsc.cli import app

    folder, owner = held
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, OUTPUTS[name])
    assert isinstance(result.exception, ConfigError), result.output
    assert f"is in use by process {owner}" in str(result.exception)
