"""Tables and the paper's figures in them."""

import json
from pathlib import Path

import pytest

from simsc.errors import ConfigError
from simsc.evaluation.scoring import is_correct
from simsc.experiments import EXPERIMENTS
from simsc.experiments.figures import one_per_category
from simsc.experiments.measurements import available, targets_for
from simsc.experiments.paper import backbone_rows, paper_columns, pck_rows
from simsc.experiments.report import ABSENT, Outcome, Row, markdown_table, write_outcome, write_report
from simsc.experiments.variants import train_command, variant
from simsc.training.config import Config
from simsc.training.presets import load_preset


def test_a_table_names_who_measured_and_what_is_missing() -> None:
    rows = [Row("a|b", {"X": "1.0"}, seed=1, epochs=2, protocol="paper-256"), *backbone_rows(["ResNet50"])]
    lines = markdown_table(["X", "PF-Pascal"], rows).splitlines()
    assert lines[2] == f"| a\\|b | ours | 1 | 2 | paper-256 | 1.0 | {ABSENT} |"
    assert lines[3] == "| ResNet50 (paper) | paper | - | - | - | - | - / - / 90.4 / - |".replace(" - ", f" {ABSENT} ")


def test_the_paper_rows_keep_their_thresholds() -> None:
    row = pck_rows("table1_main", ["SimSC-ResNet101"])[0]
    assert row.cells["PF-Willow"] == f"{ABSENT} / 37.1 / 60.6 / 73.3"
    assert row.cells["SPair (T)"] == f"{ABSENT} / 18.1 / 33.5 / {ABSENT}"
    assert paper_columns([row], ["Scenes"])[:2] == ["Scenes", "PF-Pascal"]


def test_results_and_report_are_written(tmp_path: Path) -> None:
    figure = tmp_path / "main" / "pck.png"
    outcome = Outcome(["X"], [Row("SimSC", {"X": "1.0"}, command="simsc train")], [figure], ["A remark."])
    write_outcome(outcome, tmp_path / "main", {"experiment": "main", "title": "Table 1"})
    record = json.loads((tmp_path / "main" / "results.json").read_text())
    assert record["rows"][0]["cells"] == {"X": "1.0"}
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "## main: Table 1" in text
    assert "![main](main/pck.png)" in text
    assert "- SimSC: `simsc train`" in text
    assert "- A remark." in text


@pytest.mark.parametrize("name", ["beta1", "no-l2norm", "single", "fixed:0.03"])
def test_variants_of_the_default_are_the_presets(name: str) -> None:
    assert variant(load_preset("resnet50", "pfpascal"), name) == load_preset(name, "pfpascal")


def test_the_command_rebuilds_the_configuration() -> None:
    command = train_command(
        Config(data="pfpascal", trainable="last-stage", interpolate="log-prob", epochs=3, seed=1, weights="/some/x.pth")
    )
    changed = "--set weights=x.pth --set interpolate=log-prob --set seed=1"
    assert command == f"simsc train --preset resnet50 --data pfpascal --epochs 3 {changed}"


def test_the_command_keeps_what_decides_which_model_is_best() -> None:
    config = load_preset("resnet50", "pfpascal").updated({"patience": 5, "cache": "disk", "track_gradients": True})
    assert train_command(config) == "simsc train --preset resnet50 --data pfpascal --epochs 100 --set patience=5"


def test_a_missing_data_set_is_left_out_with_a_remark(tmp_path: Path) -> None:
    (tmp_path / "pf-pascal" / "PF-dataset-PASCAL").mkdir(parents=True)
    found, notes = available(targets_for("pfpascal"), tmp_path)
    assert [target.data for target in found] == ["pfpascal"]
    assert len(notes) == 2
    assert notes[1].startswith("SPair (T) is left out")


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'heads'"):
        EXPERIMENTS["head"]


def test_correct_points_follow_the_threshold_of_the_data_set() -> None:
    import numpy as np

    from simsc.data.records import ImageRef, Pair
    from simsc.evaluation.predictions import Prediction
    from simsc.evaluation.protocol import find_protocol

    image = ImageRef("a", (256, 256))
    points = np.array([[10.0, 10.0], [110.0, 10.0]])
    pair = Pair("p", "cat", image, image, points, points, target_box=np.array([0.0, 0.0, 50.0, 40.0]))
    found = Prediction.of(pair, points + np.array([[0.0, 6.0], [0.0, 20.0]]), np.ones(2), 1.0)
    protocol = find_protocol("paper-256")
    assert is_correct(found, protocol, "img").tolist() == [True, True]  # within 25.6
    assert is_correct(found, protocol, "kps").tolist() == [True, False]  # within 10
    assert is_correct(found, protocol, "bbox").tolist() == [False, False]  # within 5
    assert one_per_category([pair, pair], 4) == [pair]
