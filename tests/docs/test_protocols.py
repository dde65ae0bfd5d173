"""The script behind docs/protocols.md agrees with the package, and each way differs as the page says."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from simsc.cli import app

SCRIPT = Path(__file__).parents[2] / "docs" / "protocols.py"


@pytest.fixture(scope="module")
def protocols():
    spec = importlib.util.spec_from_file_location("docs_protocols", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def lines(threshold):
    random = np.random.default_rng(0)
    out = []
    for number in range(20):
        height, width = (int(side) for side in random.integers(150, 400, 2))
        count = int(random.integers(3, 9))
        truth = random.uniform(0.2, 0.8, (count, 2)) * [width, height]
        out.append(
            {
                "pair": str(number), "category": "cat", "source": f"{number}s", "target": f"{number}t",
                "source_points": truth.tolist(), "target_points": truth.tolist(),
                "predicted": (truth + random.normal(0, 15, truth.shape)).tolist(), "confidence": [0.5] * count,
                "temperature": 0.03, "source_size": [height, width], "target_size": [height, width],
                "target_box": [10.0, 20.0, 100.0, 140.0], "protocol": "paper-256", "threshold": threshold,
            }
        )  # fmt: skip
    return out


@pytest.mark.parametrize("threshold", ["img", "kps", "bbox"])
@pytest.mark.parametrize("per", ["image", "point"])
@pytest.mark.parametrize(("frame", "name"), [("square", "paper-256"), ("original", "square-256")])
def test_agrees_with_simsc_score(protocols, tmp_path, threshold, per, frame, name):
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(map(json.dumps, lines(threshold))), encoding="utf-8")
    result = CliRunner().invoke(app, ["score", str(path), "--protocol", name, "--json"])
    assert result.exit_code == 0, result.output
    expected = json.loads(result.stdout)[f"per_{per}"]
    mine = protocols.score(protocols.read(path)[0], protocols.Rules(per=per, frame=frame), protocols.read(path)[1])
    assert mine == pytest.approx([expected[str(alpha)] for alpha in protocols.ALPHAS])


def test_padding_and_height_only_change_the_threshold_as_described(protocols):
    line = {
        "threshold": "kps", "target_size": [128, 256], "source_size": [128, 256], "source": "s", "target": "t",
        "target_points": [[99.5, 49.5], [199.5, 59.5]], "category": "cat",
    }  # fmt: skip
    assert protocols.theta(line, protocols.PAPER, {}) == pytest.approx(100)
    assert protocols.theta(line, replace(protocols.PAPER, base="scale_y"), {}) == pytest.approx(200)
    assert protocols.theta(line, replace(protocols.PAPER, base="padded"), {}) == pytest.approx(200.5)


def test_aligned_corners_move_border_points_and_keep_the_middle(protocols):
    moved = protocols.read_as_corners(np.array([[7.5, 127.5], [127.5, 247.5]]))
    assert moved == pytest.approx(np.array([[0.0, 127.5], [127.5, 255.0]]))
