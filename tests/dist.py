"""What ``make dist`` checks: what is in the two archives, and that the wheel works in an environment of its own.

``python tests/dist.py dist`` reads the wheel and the source distribution, installs the wheel into an empty environment
with the tested versions, and runs the README's ten lines there.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

from simsc import __version__

ROOT = Path(__file__).parents[1]
MODELS = ("simsc-vits.safetensors", "simsc-resnet50.safetensors")
LARGEST = 100e6
"""Bytes of a file that package indexes take without asking first."""
WANTED = {
    "wheel": (
        "simsc/py.typed",
        "simsc/web/static/index.html",
        "simsc/training/presets/paper.yaml",
        "*/licenses/LICENSE",
    ),
    "sdist": ("src/simsc/py.typed", "tests/conftest.py", "docs/method.md", "README.md", "LICENSE", "constraints.txt"),
}
UNWANTED = (
    "examples/*",
    "*.jpg",
    "docs/images/*.png",
    "*runs/*",
    "*.pth",
    "*.pt",
    "*.ipynb",
    "*.mat",
)
"""No data, no photographs (their licence is another one), nor pictures made of them."""

DAMAGED = "tests/regressions/"
"""Small files that once were read wrongly; they hold no data."""


def names(archive: Path) -> list[str]:
    """Files of an archive; those of a source distribution without its outer folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return file.namelist()
    with tarfile.open(archive) as file:
        return [member.name.partition("/")[2] for member in file.getmembers()]


def faults(kind: str, found: list[str]) -> list[str]:
    """What is wrong with the files of an archive, one sentence each."""
    found = [name for name in found if not name.startswith(DAMAGED)]
    wanted = (*WANTED[kind], *(f"*simsc/models/packaged/{name}" for name in MODELS))
    missing = [f"{pattern} is missing" for pattern in wanted if not any(fnmatch(name, pattern) for name in found)]
    models = [name for name in found if name.endswith(".safetensors") and Path(name).name not in MODELS]
    unwanted = [name for name in found if any(fnmatch(name, pattern) for pattern in UNWANTED)]
    return missing + [f"{name} does not belong in it" for name in models + unwanted]


def ten_lines() -> str:
    """The README's first Python block."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition("```python\n")[2].partition("```")[0]


def run_in_empty_environment(wheel: Path, folder: Path) -> str:
    """Install a wheel with the tested versions and nothing else, run the ten lines on the photographs."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*pip, wheel], check=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    check = f"{ten_lines()}\nprint(simsc.__version__, simsc.__file__, m.status, flow.points.shape)"
    run = subprocess.run([python, "-I", "-c", check], cwd=folder, check=True, capture_output=True, text=True)
    subprocess.run([python, "-I", "-m", "simsc", "--help"], cwd=folder, check=True, capture_output=True)
    if str(folder) not in run.stdout or not (folder / "matches.png").is_file():
        raise SystemExit(f"the ten lines did not run with the installed wheel: {run.stdout}")
    return run.stdout.strip()


def main(folder: Path) -> None:
    """Check both archives and try the wheel; a fault ends with code 1."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    for kind, archive in (("wheel", wheel), ("sdist", sdist)):
        found, size = names(archive), archive.stat().st_size
        wrong = faults(kind, found)
        if f"simsc-{__version__}" not in archive.name:
            wrong.append(f"its version is not {__version__}")
        if size > LARGEST:
            wrong.append(f"{size / 1e6:.0f} MB are more than {LARGEST / 1e6:.0f} MB")
        if wrong:
            raise SystemExit(f"{archive.name}: " + "; ".join(wrong))
        print(f"{archive.name}: {len(found)} files, {size / 1e6:.1f} MB, contents as they should be")
    with tempfile.TemporaryDirectory() as empty:
        print(f"the README's ten lines in an empty environment: {run_in_empty_environment(wheel, Path(empty))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
