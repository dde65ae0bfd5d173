"""How much of the package a command walks through: ``make trace`` counts the files and functions that it calls.

``PYTHONPATH`` chooses the package, so that an older tree can be counted by the same rule.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType

COMMANDS = {
    "match": ["match", "a.png", "b.png", "--grid", "4"],
    "evaluate": ["evaluate", "--data", "scenes", "--limit", "2", "--json"],
    "train": [
        *("train", "--data", "scenes", "--epochs", "1", "--out", "run"),
        *("--set", "max_pairs=4", "--set", "image_size=64", "--set", "weights=random", "--set", "cache=none"),
    ],
}


def trace(arguments: list[str]) -> None:
    """Run a command in this process and print what it called as JSON, as the last line."""
    import simsc
    from simsc.cli import app

    package = str(Path(simsc.__file__).parent)
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        app(arguments, standalone_mode=False)
    finally:
        sys.setprofile(None)
    ours = [code for code in called if code.co_filename.startswith(package) and not code.co_name.startswith("<")]
    print(json.dumps({"files": len({code.co_filename for code in ours}), "functions": len(ours)}))


def count(name: str) -> dict[str, int]:
    """Files and functions that a command calls, in a process and a folder of its own."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        for image in ("a.png", "b.png"):
            Image.linear_gradient("L").convert("RGB").save(Path(folder) / image)
        command = [sys.executable, str(Path(__file__).resolve()), *COMMANDS[name]]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(result.stderr)
    found: dict[str, int] = json.loads(result.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the size of the package and what each command calls."""
    import simsc

    lengths = [len(path.read_text("utf-8").splitlines()) for path in Path(simsc.__file__).parent.rglob("*.py")]
    print(f"{len(lengths)} files, {sum(lengths)} lines, median file {statistics.median(lengths):g} lines")
    for name in COMMANDS:
        found = count(name)
        print(f"simsc {name}: {found['functions']} functions in {found['files']} files")


if __name__ == "__main__":
    trace(sys.argv[1:]) if sys.argv[1:] else main()
