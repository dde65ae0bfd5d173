"""The notebooks run from top to bottom, in quick forms, and hold no outputs.

Their code cells are plain Python, so they are executed as such: a kernel would be three more packages, for the same.
"""

import json
import shutil
from pathlib import Path

import matplotlib as mpl
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = {
    "two_images": {"MODEL": "simsc-resnet50"},
    "labelling_loop": {"MODEL": "simsc-resnet50", "EPOCHS": 1, "STEPS": 2},
    "paper_in_ten_minutes": {"EPOCHS": 1, "PAIRS": 40},
}
pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the source distribution leaves the examples out")


def cells(name):
    return json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def run(name):
    """The names that a notebook leaves behind; those of its parameter cell are replaced after it was run."""
    space = {"__name__": "__main__"}
    for number, cell in enumerate(cells(name)):
        if cell["cell_type"] != "code":
            continue
        exec(compile("".join(cell["source"]), f"{name}.ipynb, cell {number}", "exec"), space)
        if "parameters" in cell["metadata"].get("tags", []):
            assert QUICK[name].keys() <= space.keys()
            space.update(QUICK[name])
    return space


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """As in ``examples/``, but what is written goes elsewhere."""
    shutil.copytree(EXAMPLES / "photos", tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")


def test_every_notebook_is_tested_small_and_without_outputs():
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(QUICK)
    for name in QUICK:
        assert (EXAMPLES / f"{name}.ipynb").stat().st_size < 20_000
        code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
        assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
        assert sum("parameters" in cell["metadata"].get("tags", []) for cell in code) == 1


@pytest.mark.slow
def test_two_images():
    space = run("two_images")
    assert space["m"].points.shape == (4, 2)
    # Over-smooth at 1, where only the votes of the points around tell places apart.
    assert space["maps"]["1"].max() < 20 / space["maps"]["1"].size < space["maps"]["learned"].max() / 2
    assert space["warped"].shape == (*space["flow"].points.shape[:2], 3)


@pytest.mark.slow
def test_labelling_loop():
    space = run("labelling_loop")
    assert set(space["rows"]) == {"packaged", "adapted"}
    assert all(0 < right <= known for right, known in space["rows"].values())
    assert space["adapted"].after["0.1"] >= space["adapted"].before["0.1"]
    assert not space["work"].exists()


@pytest.mark.slow
def test_the_paper():
    """The loss of a flat softmax stays at ln(cells), that of a learned temperature is below it and falls."""
    space = run("paper_in_ten_minutes")
    losses = {name: [each["loss"] for each in rows if "loss" in each] for name, rows in space["metrics"].items()}
    flat = space["math"].log(space["cells"])
    assert losses["temperature 1"][-1] > 0.8 * flat
    assert losses["learned"][-1] < losses["learned"][0] < losses["temperature 1"][0]
    temperatures = [each["temperature"] for each in space["metrics"]["learned"] if "temperature" in each]
    assert temperatures[-1] < temperatures[0] < 0.3
