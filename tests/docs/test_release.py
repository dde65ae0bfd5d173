"""What ``make dist`` refuses, and facts that a release states in more than one file."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

import simsc

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def dist():
    spec = importlib.util.spec_from_file_location("dist", ROOT / "tests" / "dist.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def wheel(dist):
    files = [*dist.WANTED["wheel"][:-1], "simsc-1.dist-info/licenses/LICENSE"]
    return [*files, *(f"simsc/models/packaged/{name}" for name in dist.MODELS)]


def test_a_wheel_of_package_and_models_is_fine(dist, wheel):
    assert dist.faults("wheel", wheel) == []
    assert dist.faults("wheel", [*wheel, "tests/regressions/one/a.jpg"]) == []


@pytest.mark.parametrize(
    "name", ["examples/photos/horse.jpg", "docs/images/photos.png", "simsc/models/packaged/old.safetensors", "a/b.mat"]
)
def test_data_photographs_and_other_models_are_refused(dist, wheel, name):
    assert dist.faults("wheel", [*wheel, name]) == [f"{name} does not belong in it"]


def test_a_missing_model_is_noticed(dist, wheel):
    assert len(dist.faults("wheel", [name for name in wheel if "vits" not in name])) == 1


def test_the_version_is_the_same_everywhere():
    assert 'dynamic = ["version"]' in PROJECT
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == simsc.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest[1] == simsc.__version__


def test_the_readme_names_every_extra():
    table = re.findall(r"^\| (`.*) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`(\w+)`", cell.split("|")[0])}
    section = PROJECT.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    assert set(re.findall(r"^(\w+) = \[", section, re.MULTILINE)) <= named


def test_every_packaged_model_is_one_that_dist_expects(dist):
    assert sorted(path.name for path in (ROOT / "src/simsc/models/packaged").iterdir()) == sorted(dist.MODELS)
