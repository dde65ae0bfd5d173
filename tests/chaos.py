"""``make chaos``: kill commands by their progress, fill their disk, share their outputs, take rights and time away.

Each command has to end as if nothing had happened once it is run again: its results are compared byte by byte with
those of an undisturbed run. Kills come after so many lines of a journal, files of a job or the start of a write, not
after so much time. Commands are forked from this process, which has everything imported: what is tested is what they
do, not how long they take to start. Where another user is needed, a new interpreter is started as that user.
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
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from itertools import count, permutations
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # threads of this process would not survive a fork

import numpy as np
from PIL import Image

from simsc.cli import main as simsc

PATIENCE = 1800
MODEL = ["--model", "simsc-resnet50", "--size", 64]
NOBODY = 65534
Hook = Callable[[], object]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=CHECKS, action="append")
    wanted = options.parse_args().only
    failed = 0
    _import_all()
    for name, check in CHECKS.items():
        if wanted is None or name in wanted:
            with tempfile.TemporaryDirectory() as place:
                begun = time.monotonic()
                try:
                    result = check(Path(place))
                except AssertionError:
                    failed += 1
                    result = f"FAILED: {traceback.format_exc()}"
                print(f"{name:16} {result} ({time.monotonic() - begun:.0f} s)", flush=True)
    sys.exit(1 if failed else 0)


def _import_all() -> None:
    from importlib import import_module

    for name in (
        "bulk.index",
        "matcher.calibrating",
        "training.adapt",
        "transfer",
        "web.review",
        "pictures",
        "cli.views",
    ):
        import_module(f"simsc.{name}")


# Commands --------------------------------------------------------------------------------------------------------


class Command:
    """A command that runs in a process forked from this one."""

    def __init__(self, *arguments: object, hook: Hook | None = None) -> None:
        self.log = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - closed with this object
        self.ended: int | None = None
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(self._run(list(map(str, arguments)), hook))

    def _run(self, arguments: list[str], hook: Hook | None) -> int:
        os.dup2(self.log.fileno(), 1)
        os.dup2(self.log.fileno(), 2)
        sys.argv = ["simsc", *arguments]
        code: Any = 1
        try:
            if hook is not None:
                hook()
            simsc()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        return code if isinstance(code, int) else 1

    def running(self) -> bool:
        if self.ended is None and (found := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.ended = os.waitstatus_to_exitcode(found[1])
        return self.ended is None

    def wait(self) -> int:
        end = time.monotonic() + PATIENCE
        while self.running():
            assert time.monotonic() < end, "takes too long"
            time.sleep(0.01)
        assert self.ended is not None
        return self.ended

    def send(self, number: int) -> None:
        if self.running():
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()

    def text(self) -> str:
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")


def run(*arguments: object, code: int = 0, hook: Hook | None = None) -> str:
    """What a command says that has to end with a code, and with a sentence instead of a trace."""
    command = Command(*arguments, hook=hook)
    ended, text = command.wait(), command.text()
    assert "Traceback" not in text, f"{arguments}: {text[-2000:]}"
    assert ended == code, f"{arguments}: code {ended}: {text[-500:]}"
    return text


def stop_when(
    reached: Callable[[], bool], *arguments: object, number: int = signal.SIGKILL, hook: Hook | None = None
) -> bool:
    """Run a command and send it a signal once something is reached; False if it had ended before."""
    command = Command(*arguments, hook=hook)
    while command.running():
        if reached():
            command.send(number)
            command.wait()
            return True
        time.sleep(0.002)
    assert command.ended == 0, command.text()[-2000:]
    return False


def lines(file: Path, wanted: int) -> Callable[[], bool]:
    return lambda: file.exists() and file.read_bytes().count(b"\n") >= wanted


def files(folder: Path, pattern: str, wanted: int = 1) -> Callable[[], bool]:
    return lambda: len(list(folder.glob(pattern))) >= wanted


def same(one: Path, other: Path, *names: str) -> None:
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), f"{name} differs"


def leftovers(folder: Path) -> None:
    """No lock, no half-written file."""
    left = [path.name for path in folder.rglob(".*")]
    assert not left, f"leftovers {left}"


# What the commands work on ---------------------------------------------------------------------------------------


def _labelled(place: Path) -> list[object]:
    """Photographs, one of them labelled, and the command that carries its labels over."""
    _photos(place)
    _, points = _scene(0)
    names = {f"p{i}": point for i, point in enumerate(points)}
    (place / "source.json").write_text(json.dumps({"category": "thing", "keypoints": names}))
    Image.fromarray(_scene(0)[0]).save(place / "source.png")
    command = ["transfer", place / "source.png", place / "photos", "--annotations", place / "source.json"]
    return [*command, "--batch-size", 1, *MODEL]


def _photos(place: Path, number: int = 6) -> None:
    (place / "photos").mkdir(exist_ok=True)
    for index in range(number):
        Image.fromarray(_scene(index)[0]).save(place / "photos" / f"{index}.png")


def _scene(index: int) -> tuple[np.ndarray, list[list[float]]]:
    """Coloured tiles that move, with four points on them."""
    tiles = np.random.default_rng(7).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    shifted = np.roll(np.kron(tiles, np.ones((12, 12, 1), np.uint8)), 3 * index, axis=1)
    return shifted, [[float((x + 3 * index) % 96), y] for x, y in ((10, 20), (60, 30), (40, 70), (80, 80))]


def _keypoints(place: Path, number: int = 4) -> Path:
    """A COCO file of one's own key-points."""
    _photos(place, number)
    images = [{"id": i, "file_name": f"photos/{i}.png", "width": 96, "height": 96} for i in range(number)]
    flat = {i: [value for x, y in _scene(i)[1] for value in (x, y, 2)] for i in range(number)}
    things = [{"id": i, "image_id": i, "category_id": 1, "keypoints": flat[i], "bbox": [0, 0, 96, 96]} for i in flat]
    category = {"id": 1, "name": "thing", "keypoints": ["a", "b", "c", "d"]}
    (place / "photos.json").write_text(json.dumps({"images": images, "categories": [category], "annotations": things}))
    return place / "photos.json"


def _pairs(place: Path) -> Path:
    """A data set of one's own: all pairs of the photographs."""
    _photos(place)
    sides = [{"image": f"{index}.png", "points": _scene(index)[1]} for index in range(6)]
    pairs = [{"category": "thing", "source": a, "target": b} for a, b in permutations(sides, 2)]
    for split, some in (("train", pairs), ("val", pairs[:4]), ("test", pairs[4:6])):
        (place / "photos" / f"{split}.json").write_text(json.dumps({"pairs": some}))
    return place / "photos"


def _train(place: Path) -> list[object]:
    """Eight steps, each of them kept."""
    command = ["train", "--data", "pairs", "--root", _pairs(place), "--epochs", 1]
    changes = ("batch_size=4", "log_every=1", "cache=none", "checkpoint_minutes=0.00001", "image_size=64")
    return [*command, *(part for change in changes for part in ("--set", change))]


def _evaluate(place: Path) -> list[object]:
    return ["evaluate", "--model", "simsc-resnet50", "--size", 64, "--data", "pairs", "--root", _pairs(place)]


def _predictions(place: Path) -> Path:
    line = {"pair": "a", "category": "cat", "source": "a", "target": "b", "source_points": [[1, 2]], "threshold": "img"}
    line |= {"target_points": [[3, 4]], "predicted": [[3, 5]], "confidence": [0.5], "temperature": 0.1}
    line |= {"source_size": [50, 60], "target_size": [50, 60], "target_box": [0, 0, 20, 30], "protocol": "original"}
    (place / "given.jsonl").write_text(json.dumps(line) + "\n")
    return place / "given.jsonl"


def _bulk(place: Path) -> list[object]:
    return ["bulk", place / "photos", "--rule", "all", "--grid", 2, "--shard-rows", 4, "--workers", 1, *MODEL]


def _calibrate(place: Path) -> list[object]:
    return ["calibrate", "--model", "simsc-resnet50", "--data", "scenes", "--pairs", 10]


def _adapt(place: Path) -> list[object]:
    return ["adapt", _keypoints(place), "--epochs", 1, "--start", "simsc-resnet50"]


def _few_steps() -> None:
    """An adaptation of ten steps on small images instead of 160 on large ones."""
    from simsc.training import adapt

    adapt.adapt_objects = partial(adapt.adapt_objects, steps=10)  # type: ignore[assignment]
    adapt.RECIPE |= {"image_size": 64, "log_every": 1, "checkpoint_minutes": 0.00001}
    config = adapt.adaptation
    adapt.adaptation = lambda *facts: config(*facts).updated({"image_size": 64})  # type: ignore[assignment]


def writing_commands(given: Path, out: Path) -> dict[str, tuple[list[object], Path, Hook | None]]:
    """Every command that writes files, without its options for them: ``(command, output, hook)`` by name."""
    transfer = _labelled(given)
    pair = [given / "photos/0.png", given / "photos/1.png"]
    return {
        "match": (["match", *pair, "--grid", 2, *MODEL, "--out", out / "m.json"], out / "m.json", None),
        "warp": (["warp", *pair, *MODEL, "--out", out / "w.png"], out / "w.png", None),
        "score": (["score", _predictions(given), "--out", out / "s.json"], out / "s.json", None),
        "evaluate": ([*_evaluate(given), "--predictions", out / "p.jsonl"], out / "p.jsonl", None),
        "calibrate": ([*_calibrate(given), "--out", out / "c.safetensors"], out / "c.safetensors", None),
        "average": (
            ["models", "average", "simsc-resnet50", "--out", out / "a.safetensors"],
            out / "a.safetensors",
            None,
        ),
        "transfer": ([*transfer, "--out", out / "t.json"], out / "t.json.journal.jsonl", None),
        "train": ([*_train(given), "--out", out / "run"], out / "run", None),
        "adapt": ([*_adapt(given), "--out", out / "own"], out / "own", _few_steps),
        "bulk": ([*_bulk(given), "--out", out / "bulk"], out / "bulk", None),
        "index": (["index", given / "photos", *MODEL, "--workers", 1, "--out", out / "index"], out / "index", None),
        "review": (["review", given / "photos.json", "--out", given / "r.json", "--port", 0], given / "r.json", None),
    }


# Kills -----------------------------------------------------------------------------------------------------------


def train(place: Path) -> str:
    command = _train(place)
    run(*command, "--out", place / "whole")
    kills = 0
    for number, (wanted, kind) in enumerate(((2, signal.SIGKILL), (4, signal.SIGTERM), (7, signal.SIGKILL))):
        out = place / f"run{number}"
        kills += stop_when(lines(out / "metrics.jsonl", wanted), *command, "--out", out, number=kind)
        run(*command, "--out", out, "--resume")
        same(place / "whole", out, "best.safetensors", "last.safetensors")
        leftovers(out)
    assert kills == 3, f"only {kills} of 3 were in time"
    return "3 kills, results equal to the byte"


def transfer(place: Path) -> str:
    command = _labelled(place)
    run(*command, "--out", place / "whole.json")
    for wanted in (2, 4, 6):
        out = place / f"out{wanted}.json"
        assert stop_when(lines(Path(f"{out}.journal.jsonl"), wanted), *command, "--out", out), "too late"
        run(*command, "--out", out)
        assert out.read_bytes() == (place / "whole.json").read_bytes(), "labels differ"
    leftovers(place)
    assert not list(place.glob("*journal*"))
    return "3 kills, results equal to the byte"


def evaluate(place: Path) -> str:
    outputs = [place / name for name in ("p.jsonl", "r.json")]
    command = [*_evaluate(place), "--predictions", outputs[0], "--out", outputs[1]]
    run(*command)
    before = [file.read_bytes() for file in outputs]
    assert stop_when(files(place, ".p.jsonl.in-use"), *command), "too late"
    assert [file.read_bytes() for file in outputs] == before, "a killed evaluation left other files"
    run(*command)
    assert [file.read_bytes() for file in outputs] == before, "results differ"
    leftovers(place)
    return "1 kill, results equal to the byte"


def bulk(place: Path) -> str:
    _photos(place)
    run(*_bulk(place), "--out", place / "whole")
    parts = sorted(path.name for path in (place / "whole").glob("part-*.parquet"))
    assert len(parts) == 9
    for wanted in (1, 4, 8):
        out = place / f"out{wanted}"
        assert stop_when(files(out, "part-*.parquet", wanted), *_bulk(place), "--out", out), "too late"
        run(*_bulk(place), "--out", out)
        same(place / "whole", out, *parts)
        leftovers(out)
    return "3 kills, results equal to the byte"


def calibrate(place: Path) -> str:
    command = _calibrate(place)
    run(*command, "--out", place / "whole.safetensors", "--report", place / "whole.json")
    out = place / "own.safetensors"
    # Once it has begun, and in the middle of writing the model.
    for pattern in (".own.safetensors.in-use", ".own.*[0-9a-f].safetensors"):
        assert stop_when(files(place, pattern), *command, "--out", out, "--report", place / "own.json"), "too late"
        assert not out.exists()
    run(*command, "--out", out, "--report", place / "own.json")
    assert out.read_bytes() == (place / "whole.safetensors").read_bytes(), "the model differs"
    assert (place / "own.json").read_bytes() == (place / "whole.json").read_bytes(), "the figures differ"
    leftovers(place)
    return "2 kills, results equal to the byte"


def adapt(place: Path) -> str:
    command = _adapt(place)
    run(*command, "--out", place / "whole", hook=_few_steps)
    for number, (wanted, kind) in enumerate(((2, signal.SIGKILL), (5, signal.SIGTERM))):
        out = place / f"own{number}"
        metrics = lines(out / "metrics.jsonl", wanted)
        assert stop_when(metrics, *command, "--out", out, number=kind, hook=_few_steps), "too late"
        run(*command, "--out", out, "--resume", hook=_few_steps)
        same(place / "whole", out, "best.safetensors", "last.safetensors")
        leftovers(out)
    return "2 kills, results equal to the byte"


# What the system takes away --------------------------------------------------------------------------------------


def two_processes(place: Path) -> str:
    given, out = place / "given", place / "out"
    given.mkdir()
    commands = writing_commands(given, out)
    for name, (command, output, hook) in commands.items():
        marks = output / ".in-use", output.with_name(f".{output.name}.in-use")
        first = Command(*command, hook=hook)
        try:
            while not any(mark.exists() and mark.read_text() for mark in marks):
                assert first.running(), f"{name}: the first process ended too early: {first.text()[-500:]}"
                time.sleep(0.005)
            first.send(signal.SIGSTOP)  # holds it while the second tries
            second = run(*command, *(["--resume"] if name in ("train", "adapt") else []), code=2, hook=hook)
            assert f"in use by process {first.pid}" in second, f"{name}: {second}"
        finally:
            first.kill()
    return f"of {len(commands)} commands the second is refused with the owner's number"


@contextmanager
def _disk(place: Path) -> Any:
    """A file system of 20 MB; None without the right to mount one."""
    mounted = (
        os.geteuid() == 0 and not subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", place]).returncode
    )
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", place], check=True)


def full_disk(place: Path) -> str:
    given = place / "given"
    given.mkdir()
    (place / "disk").mkdir()
    with _disk(place / "disk") as disk:
        if disk is None:
            return "left out: needs the right to mount"
        commands = writing_commands(given, disk)
        del commands["review"]  # writes beside its labels, one correction at a time: see the tests of the page
        (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - 4096))  # room for a lock
        for name, (command, _, hook) in commands.items():
            said = run(*command, code=2, hook=hook)
            assert "no space left" in said, f"{name}: {said}"
            left = [
                path for path in disk.rglob("*") if path.is_file() and path.name != "filler" and path.stat().st_size
            ]
            assert not [path for path in left if not path.name.startswith("_job")], f"{name}: half-written {left}"
            for path in (path for path in disk.iterdir() if path.name != "filler"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        (disk / "filler").unlink()
        run(*commands["match"][0])
        run(*commands["bulk"][0])
    return f"of {len(commands)} commands each says one sentence, ends with code 2 and leaves nothing half-written"


def read_only(place: Path) -> str:
    given = place / "given"
    given.mkdir()
    (place / "disk").mkdir()
    with _disk(place / "disk") as disk:
        if disk is None or subprocess.run(["mount", "-o", "remount,ro", disk]).returncode:
            return "left out: needs the right to mount"
        commands = writing_commands(given, disk)
        del commands["review"]
        for name, (command, _, hook) in commands.items():
            said = run(*command, code=2, hook=hook)
            assert "read-only" in said, f"{name}: {said}"
    return f"of {len(commands)} commands each says one sentence and ends with code 2"


def no_permission(place: Path) -> str:
    """Folders that may not be written and files that may not be read, as a user who is not root."""
    prefix = _as_nobody(place) if os.geteuid() == 0 else []
    if prefix is None:
        return "left out: another user cannot start this Python"
    place.chmod(0o755)
    given, closed, secret = place / "given", place / "closed", place / "secret.jsonl"
    given.mkdir()
    commands = writing_commands(given, closed)
    closed.mkdir(mode=0o555)
    shutil.copy(_predictions(given), secret)
    secret.chmod(0)
    (place / "home").mkdir(mode=0o777)
    (place / "home").chmod(0o777)
    environment = {**os.environ, "HOME": str(place / "home"), "SIMSC_HOME": str(place / "home")}
    tried = [commands[name][0] for name in ("match", "score", "evaluate", "transfer", "train", "bulk")]
    for command in [*tried, ["score", secret], ["match", secret, secret, "--grid", 2]]:
        arguments = [*prefix, sys.executable, "-m", "simsc", *map(str, command)]
        found = subprocess.run(arguments, capture_output=True, text=True, env=environment, cwd="/", timeout=PATIENCE)
        assert found.returncode == 2, f"{command}: {found.stderr[-800:]}"
        assert "Traceback" not in found.stderr, found.stderr[-2000:]
        said = " ".join(found.stderr.replace("│", " ").split())
        assert "no permission" in said or "not readable" in said, said
    return f"{len(tried) + 2} commands say one sentence and end with code 2"


def _as_nobody(place: Path) -> list[str] | None:
    """What makes a command one of the user nobody; None where that is impossible.

    This Python may lie where only root can look, as in a home folder. In a name space of their own, such commands see
    an empty folder there that holds nothing but this Python.
    """
    python = Path(sys.base_prefix)
    closed = next((folder for folder in reversed(python.parents) if not folder.stat().st_mode & 0o001), None)
    become = f'exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "$@"'
    if closed is not None:
        (place / "python").mkdir()
        moves = f"mount --bind {python} {place}/python; mount -t tmpfs -o mode=755 tmpfs {closed}; mkdir -p {python}"
        become = f"{moves}; mount --bind {place}/python {python}; {become}"
    prefix = ["unshare", "--mount", "sh", "-ec", become, "sh"]
    place.chmod(0o755)
    ready = subprocess.run([*prefix, sys.executable, "-c", "import simsc.cli, os; assert os.geteuid()"], cwd="/")
    return prefix if ready.returncode == 0 else None


def clock(place: Path) -> str:
    """The clock goes back a day at a time, and what was written before seems to come from the future."""
    command = _labelled(place)
    run(*command, "--out", place / "whole.json")
    run(*_bulk(place), "--out", place / "whole-bulk")
    run(*_train(place), "--out", place / "whole-run")
    jobs: dict[str, tuple[list[object], Callable[[], bool]]] = {
        "out.json": (command, lines(place / "out.json.journal.jsonl", 3)),
        "out-bulk": (_bulk(place), files(place / "out-bulk", "part-*.parquet", 3)),
        "out-run": (_train(place), lines(place / "out-run" / "metrics.jsonl", 3)),
    }
    for name, (job, reached) in jobs.items():
        assert stop_when(reached, *job, "--out", place / name, hook=_clock_goes_back), f"{name}: too late"
        for path in place.rglob("*"):
            os.utime(path, (time.time() + 1e6, time.time() + 1e6))
        again = ["--resume"] if name == "out-run" else []
        run(*job, "--out", place / name, *again, hook=_clock_goes_back)
    assert (place / "out.json").read_bytes() == (place / "whole.json").read_bytes()
    same(place / "whole-run", place / "out-run", "best.safetensors", "last.safetensors")
    same(place / "whole-bulk", place / "out-bulk", *(path.name for path in (place / "whole-bulk").glob("part-*")))
    return "3 commands killed and gone on with, results equal to the byte"


def _clock_goes_back() -> None:
    real, days = time.time, count()
    time.time = lambda: real() - 86_400 * next(days)
    time.time_ns = lambda: int(time.time() * 1e9)


CHECKS: dict[str, Callable[[Path], str]] = {
    "kill train": train,
    "kill transfer": transfer,
    "kill evaluate": evaluate,
    "kill bulk": bulk,
    "kill calibrate": calibrate,
    "kill adapt": adapt,
    "two processes": two_processes,
    "full disk": full_disk,
    "read-only disk": read_only,
    "no permission": no_permission,
    "clock set back": clock,
}

if __name__ == "__main__":
    main()
