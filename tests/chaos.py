"""``make chaos``: kill commands by their progress, fill their disk, let two of them share an output.

Each command has to end as if nothing had happened once it is run again: its results are compared byte by byte with
those of an undisturbed run. Kills come after so many lines of a journal or metrics, not after so much time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image

SIMSC = [sys.executable, "-m", "simsc"]
PATIENCE = 600
TRAIN = [
    "train",
    "--data",
    "scenes",
    "--epochs",
    "1",
    "--set",
    "max_pairs=40",
    "--set",
    "log_every=1",
    "--set",
    "cache=none",
]
TRAIN += ["--set", "checkpoint_minutes=0.00001", "--set", "image_size=64"]
EVALUATE = ["evaluate", "--data", "scenes", "--limit", "6"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=[name for name, _ in CHECKS])
    wanted = options.parse_args().only
    failed = 0
    for name, check in CHECKS:
        if wanted in (None, name):
            with tempfile.TemporaryDirectory() as place:
                begun = time.monotonic()
                try:
                    result = check(Path(place))
                except AssertionError as error:
                    failed += 1
                    result = f"FAILED: {error}"
                print(f"{name:24} {result} ({time.monotonic() - begun:.0f} s)", flush=True)
    sys.exit(1 if failed else 0)


def run(*arguments: object, code: int = 0, **settings: str) -> subprocess.CompletedProcess[str]:
    """A command that has to end with a code, and with at most one sentence instead of a trace."""
    command = [*SIMSC, *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings}, timeout=PATIENCE)
    assert "Traceback" not in found.stderr, found.stderr[-2000:]
    assert found.returncode == code, f"code {found.returncode}: {found.stderr[-500:]}"
    return found


def kill_at(lines: int, file: Path, *arguments: object, number: int = signal.SIGKILL) -> bool:
    """Run a command and send it a signal once a file has so many lines; False if it had ended before."""
    with tempfile.TemporaryFile() as sink:
        process = subprocess.Popen([*SIMSC, *map(str, arguments)], stdout=sink, stderr=sink)
        try:
            while process.poll() is None:
                if file.exists() and file.read_bytes().count(b"\n") >= lines:
                    process.send_signal(number)
                    process.wait(PATIENCE)
                    return True
                time.sleep(0.005)
            return False
        finally:
            process.kill()
            process.wait()


def same(one: Path, other: Path, *names: str) -> None:
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), f"{name} differs"


def train(place: Path) -> str:
    run(*TRAIN, "--out", place / "whole")
    kills = 0
    for number, (lines, kind) in enumerate(((2, signal.SIGKILL), (5, signal.SIGTERM), (9, signal.SIGKILL))):
        out = place / f"run{number}"
        kills += kill_at(lines, out / "metrics.jsonl", *TRAIN, "--out", out, number=kind)
        run(*TRAIN, "--out", out, "--resume")
        same(place / "whole", out, "best.safetensors", "last.safetensors")
        leftovers = [path.name for path in out.iterdir() if path.name.startswith(".")]
        assert not leftovers, f"leftovers {leftovers}"
    return f"{kills} kills, results equal to the byte"


def _labelled(place: Path) -> list[object]:
    from simsc.data.sources import load_pairs

    pairs = load_pairs("scenes")[:8]
    (place / "photos").mkdir()
    for number, pair in enumerate(pairs):
        Image.fromarray(pair.target.load()).save(place / "photos" / f"{number}.png")
    Image.fromarray(pairs[0].source.load()).save(place / "source.png")
    names = {f"p{i}": point for i, point in enumerate(pairs[0].source_points.tolist())}
    (place / "source.json").write_text(json.dumps({"category": "thing", "keypoints": names}))
    return [
        "transfer",
        place / "source.png",
        place / "photos",
        "--annotations",
        place / "source.json",
        "--batch-size",
        1,
    ]


def transfer(place: Path) -> str:
    command = _labelled(place)
    run(*command, "--out", place / "whole.json")
    kills = 0
    for lines in (2, 4, 7):
        out = place / f"out{lines}.json"
        kills += kill_at(lines, Path(f"{out}.journal.jsonl"), *command, "--out", out)
        run(*command, "--out", out)
        assert out.read_bytes() == (place / "whole.json").read_bytes(), "labels differ"
    left = sorted(path.name for path in place.iterdir() if path.name.startswith(".") or "journal" in path.name)
    assert not left, f"leftovers {left}"
    return f"{kills} kills, results equal to the byte"


def evaluate(place: Path) -> str:
    files = [place / name for name in ("p.jsonl", "r.json")]
    options = ["--predictions", files[0], "--out", files[1]]
    run(*EVALUATE, *options)
    before = [file.read_bytes() for file in files]
    kills = kill_at(0, place / ".p.jsonl.in-use", *EVALUATE, *options)
    assert [file.read_bytes() for file in files] == before, "a killed evaluation left other files"
    run(*EVALUATE, *options)
    assert [file.read_bytes() for file in files] == before, "results differ"
    return f"{int(kills)} kill, results equal to the byte"


def two_processes(place: Path) -> str:
    for out, command in (
        ("run", [*TRAIN, "--out", place / "run"]),
        ("p.jsonl", [*EVALUATE, "--predictions", place / "p.jsonl"]),
    ):
        mark = place / out / ".in-use" if out == "run" else place / f".{out}.in-use"
        first = subprocess.Popen([*SIMSC, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not mark.exists():
                assert first.poll() is None, f"{out}: the first process ended too early"
                time.sleep(0.01)
            first.send_signal(signal.SIGSTOP)  # holds it while the second tries
            second = run(*command, *(["--resume"] if out == "run" else []), code=2)
            assert f"in use by process {first.pid}" in second.stderr, second.stderr
        finally:
            first.kill()
            first.wait()
    return "the second is refused with the owner's number"


def full_disk(place: Path) -> str:
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", place]).returncode:
        return "left out: needs the right to mount"
    try:
        filler = place / "filler"
        free = shutil.disk_usage(place).free
        filler.write_bytes(bytes(free - 4096))  # room for a lock
        found = [run(*EVALUATE, "--predictions", place / "p.jsonl", code=2).stderr]
        found.append(run(*TRAIN, "--out", place / "run", code=2).stderr)
        assert all("no space left" in text for text in found), found
        left = [path.name for path in place.iterdir() if path.suffix == ".jsonl"]
        assert not left, f"half-written {left}"
        filler.unlink()
        run(*EVALUATE, "--predictions", place / "p.jsonl")
    finally:
        subprocess.run(["umount", place], check=True)
    return "one sentence, code 2, nothing half-written"


def no_permission(place: Path) -> str:
    if os.geteuid() != 0:
        return "left out: needs another user to become"
    (place / "locked").mkdir()
    place.chmod(0o755)
    (place / "locked").chmod(0o555)
    command = [*SIMSC, *EVALUATE, "--predictions", str(place / "locked" / "p.jsonl")]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, user=65534, group=65534, extra_groups=[], cwd="/"
        )
    except PermissionError:
        return "left out: another user cannot start this Python"
    assert found.returncode == 2, found.stderr[-500:]
    assert "Traceback" not in found.stderr
    return "one sentence, code 2"


CHECKS: list[tuple[str, Callable[[Path], str]]] = [
    ("kill train", train),
    ("kill transfer", transfer),
    ("kill evaluate", evaluate),
    ("two processes", two_processes),
    ("full disk", full_disk),
    ("no permission", no_permission),
]

if __name__ == "__main__":
    main()
