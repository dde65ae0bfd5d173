"""Another package adds a backbone, a head, a localiser and a data set, by entry points alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PLUGIN = Path(__file__).parent / "plugin"
GUIDE = Path(__file__).parents[1] / "docs" / "extend.md"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages, as an installer leaves it: the package, and what it says of itself."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(PLUGIN / "simsc_example", folder / "simsc_example")
    text = (PLUGIN / "pyproject.toml").read_text(encoding="utf-8")
    groups = re.findall(r'\[project\.entry-points\."([\w.]+)"\]\n((?:.+\n)+)', text)
    info = folder / "simsc_example-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: simsc-example\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("".join(f"[{name}]\n{lines}" for name, lines in groups).replace('"', ""))
    return folder


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of a square of many colours at different places and scales, with the centres of its quarters."""
    root = tmp_path_factory.mktemp("squares")
    (root / "squares.md").write_text("# Squares\n")
    (root / "test").mkdir()
    for number, (left, top, quarter) in enumerate([(16, 32, 32), (48, 8, 40), (24, 24, 24), (8, 56, 32)]):
        pixels = np.full((128, 144, 3), 128, np.uint8)
        across, down = np.meshgrid(*[np.linspace(0, 255, 2 * quarter)] * 2)
        square = np.stack([across, down, 255 - across], axis=-1)
        pixels[top : top + 2 * quarter, left : left + 2 * quarter] = square.astype(np.uint8)
        Image.fromarray(pixels).save(root / "test" / f"{number}.png")
        middle = np.array([(1, 1), (3, 1), (3, 3), (1, 3)]) * quarter / 2 - 0.5
        np.savetxt(root / "test" / f"{number}.txt", middle + np.array([left, top]))
    return root


def simsc(site: Path, *arguments: object) -> str:
    """What the command line prints in a process that finds the plugin."""
    path = os.pathsep.join([str(site), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "simsc", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_another_package_adds_is_listed(site: Path, squares: Path) -> None:
    assert "squares" in [row["name"] for row in json.loads(simsc(site, "data", "list", "--json"))]
    assert "colors.example" in [row["name"] for row in json.loads(simsc(site, "models", "list", "--json"))]
    assert (
        json.loads(simsc(site, "data", "info", "squares", "--root", squares, "--json"))["splits"]["test"]["pairs"] == 6
    )


def test_evaluate_uses_all_four(site: Path, squares: Path) -> None:
    result = json.loads(
        simsc(
            site, "evaluate", "--model", "colors.example+contrast:share=0.5", "--data", "squares", "--root", squares,
            "--localizer", "parabola", "--protocol", "square-256", "--temperature", 0.05, "--json",
        )
    )  # fmt: skip
    assert result["pairs"] == 6
    assert result["per_image"]["0.1"] > 80  # by chance it would be below 10


def test_match_uses_backbone_and_head(site: Path, squares: Path) -> None:
    source, target = squares / "test" / "0.png", squares / "test" / "1.png"
    start, end = (np.loadtxt(path.with_suffix(".txt")) for path in (source, target))
    points = ";".join(f"{x},{y}" for x, y in start)
    answer = simsc(site, "match", source, target, "--points", points, "--model", "colors.example+contrast", "--json")
    found = [each["target"] for each in json.loads(answer)["matches"]]
    assert np.abs(np.array(found) - end).max() < 20


def test_misspelt_options_of_a_plugin_are_refused(site: Path, squares: Path) -> None:
    image = squares / "test" / "0.png"
    with pytest.raises(AssertionError, match="unknown option of head 'contrast' 'shard'; did you mean 'share'"):
        simsc(site, "match", image, image, "--points", "1,1", "--model", "colors.example+contrast:shard=1")


def test_the_guide_shows_the_files_of_the_package() -> None:
    shown = re.findall(r"```(?:python|toml)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.S)
    for path in (PLUGIN / "pyproject.toml", *sorted((PLUGIN / "simsc_example").glob("[a-z]*.py"))):
        assert path.read_text(encoding="utf-8") in shown, f"docs/extend.md does not show {path.name} as it is"
