"""``make lock``: every package of the development environment with the SHA-256 of its file, in ``requirements.lock``.

The versions are those that are installed beside this Python; the digests are those of the files that pip would fetch
for them on this platform.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"
LEFT_OUT = {"simsc", "pip", "setuptools"}
WHERE = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
HEAD = f"""\
# Made by `make lock`: what the tests ran with on {WHERE}.
# torch is its build for processors only. Everything is checked:
#   pip install --require-hashes --no-deps -r requirements.lock
"""


def main() -> None:
    wanted = {_plain(each.metadata["Name"]): each.version for each in distributions()}
    lines = [f"{name}=={version.partition('+')[0]}" for name, version in sorted(wanted.items()) if name not in LEFT_OUT]
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "wanted.txt").write_text("\n".join(lines))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"]
        subprocess.run([*pip, "--report", f"{place}/report.json", "-r", f"{place}/wanted.txt"], check=True)
        report = json.loads((Path(place) / "report.json").read_text())
    LOCK.write_text(HEAD + "".join(sorted(map(_line, report["install"]))))
    print(f"{LOCK.name}: {len(report['install'])} packages")


def _line(found: dict) -> str:
    facts = found["metadata"]
    digest = found["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{_plain(facts['name'])}=={facts['version'].partition('+')[0]} --hash=sha256:{digest}\n"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
