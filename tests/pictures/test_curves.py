import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from simsc.pictures import plot_gradients, plot_learning_curves, plot_lines, plot_pck_curves, plot_sweep
from simsc.pictures.curves import PlotError, smooth, spread

TRAINING = [
    {"step": step, "epoch": 1, "loss": 5 / (step + 1), "beta_source": 0.5, "beta_target": 0.4, "temperature": 0.2}
    for step in range(20)
]
VALIDATION = [
    {"step": 10, "epoch": 1, "val": {"0.05": 40.0, "0.1": 60.0}},
    {"step": 20, "epoch": 2, "val": {"0.1": 70.0}},
]


def check_files(paths, folder) -> Image.Image:
    png, svg = paths
    assert sorted(each.name for each in folder.iterdir()) == sorted([png.name, svg.name])  # no temporary file is left
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    image = Image.open(png).convert("RGB")
    assert image.getpixel((0, 0)) == (255, 255, 255)
    return image


def test_learning_curves_have_three_panels(tmp_path):
    full = check_files(plot_learning_curves(TRAINING + VALIDATION, tmp_path / "run.png", title="run"), tmp_path)
    only_loss = check_files(plot_learning_curves([{"step": 1, "loss": 2.0}], tmp_path / "run"), tmp_path)
    assert full.width == 3 * only_loss.width


def test_learning_curves_without_records_are_refused(tmp_path):
    with pytest.raises(PlotError, match="nothing to plot"):
        plot_learning_curves([{"step": 1, "lr": 1e-4}], tmp_path / "run.png")
    assert list(tmp_path.iterdir()) == []


def test_pck_curves(tmp_path):
    alphas = np.linspace(0.01, 0.2, 20)
    check_files(
        plot_pck_curves({"a": (alphas, alphas * 400), "b": (alphas, alphas * 300)}, tmp_path / "pck.svg"), tmp_path
    )


def test_sweep(tmp_path):
    paths = plot_sweep([0.01, 0.1, 1], {"a": [1, 2, float("nan")]}, tmp_path / "v1.5", mark_x={"learned": 0.03})
    assert [path.name for path in paths] == ["v1.5.png", "v1.5.svg"]  # the dot in the name is no ending
    check_files(paths, tmp_path)


def test_sweep_of_unequal_length_is_refused(tmp_path):
    with pytest.raises(PlotError, match="series 'a': 2 values for 3"):
        plot_sweep([1, 2, 3], {"a": [1, 2]}, tmp_path / "sweep.png")


def test_gradients_and_many_series(tmp_path):
    steps = np.arange(10)
    check_files(plot_gradients({str(i): (steps, 10.0**-i + steps) for i in range(9)}, tmp_path / "g.png"), tmp_path)


def test_the_same_curve_gives_the_same_files(tmp_path):
    contents = []
    for name in ("a", "b"):
        paths = plot_lines({"x": ([0, 1], [0, 1]), "y": ([0, 1], [1, 0])}, tmp_path / name / "lines.png", title="t")
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]


def test_the_look_does_not_leak_into_the_users_settings(tmp_path):
    import matplotlib

    with matplotlib.rc_context({"axes.facecolor": "black", "font.size": 30}):
        plot_lines({"x": ([0, 1], [0, 1])}, tmp_path / "lines.png")
        assert matplotlib.rcParams["font.size"] == 30
    dark = np.asarray(Image.open(tmp_path / "lines.png").convert("L")) < 60
    assert dark.mean() < 0.1


def test_nothing_to_plot_is_refused(tmp_path):
    with pytest.raises(PlotError, match="empty"):
        plot_lines({"x": ([], [])}, tmp_path / "lines.png")


def test_missing_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlotError, match=r"install simsc\[plots\]"):
        plot_lines({"x": ([0, 1], [0, 1])}, tmp_path / "lines.png")


def test_pictures_do_not_import_matplotlib():
    code = "import sys, simsc.pictures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_smooth_is_a_running_mean():
    values = np.random.default_rng(0).normal(size=30)
    assert smooth(values, 5)[10] == pytest.approx(values[6:11].mean())
    assert smooth(values, 1) == pytest.approx(values)


def test_labels_are_pushed_apart_in_order():
    places = spread([0.9, 0.91, 0.1, 0.92], step=0.05)
    assert places[2] == 0.1
    assert np.diff([places[0], places[1], places[3]]).min() >= 0.05 - 1e-4
