"""The scorer in docs/evaluation.md knows nothing of this package and must agree with it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from simsc.evaluation.predictions import Prediction, write_predictions
from simsc.evaluation.protocol import find_protocol
from simsc.evaluation.scoring import score

DOCUMENT = Path(__file__).parents[2] / "docs" / "evaluation.md"


def drawn(threshold: str, count: int = 40) -> list[Prediction]:
    """Random images, points and errors of all sizes."""
    random = np.random.default_rng(0)
    items = []
    for index in range(count):
        size = (int(random.integers(50, 500)), int(random.integers(50, 500)))
        truth = random.uniform(0, 1, (int(random.integers(2, 9)), 2)) * [size[1] - 1, size[0] - 1]
        error = random.normal(size=truth.shape) * random.choice([1, 5, 20])
        box = np.concatenate([truth.min(axis=0), truth.max(axis=0) + 3])
        items.append(
            Prediction(
                pair=str(index), category="cat", source="a", target="b", source_points=truth, target_points=truth,
                predicted=truth + error, confidence=np.ones(len(truth)), temperature=0.03, source_size=size,
                target_size=size, target_box=box, protocol="paper-256", threshold=threshold,
            )
        )  # fmt: skip
    return items


@pytest.mark.parametrize("threshold", ["img", "kps", "bbox"])
def test_agrees_with_ours(threshold: str, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
    file, script = tmp_path / "p.jsonl", tmp_path / "scorer.py"
    script.write_text(code)
    predictions = drawn(threshold)
    write_predictions(file, predictions)
    done = subprocess.run([sys.executable, script, file], capture_output=True, text=True, check=True)
    ours = score(predictions, find_protocol("paper-256"), threshold).per_image  # type: ignore[arg-type]
    theirs = {float(alpha): float(rate) for alpha, rate in map(str.split, done.stdout.splitlines())}
    assert theirs == pytest.approx(ours, abs=0.006)
    assert 5 < ours[0.05] < 95
