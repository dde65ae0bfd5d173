"""Draw how often matches are right against how sure the model was, from the report of ``simsc calibrate``.

Run from the project's folder: ``python docs/images/reliability.py``; a report's path may be given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

FOLDER = Path(__file__).parent
REPORT = FOLDER.parent / "results" / "simsc-vits-calibration.json"


def main(report: Path) -> None:
    """Write the picture of a report beside this file."""
    bins = json.loads(report.read_text())["reliability"]
    confidence, right, count = zip(*bins, strict=True)
    figure = Figure(figsize=(4.6, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1, zorder=1)
    axes.text(
        0.6,
        0.63,
        "right as often as promised",
        rotation=45,
        rotation_mode="anchor",
        ha="center",
        va="bottom",
        color="0.45",
    )
    axes.plot(confidence, right, color="#1b7f4d", linewidth=1.2, zorder=2)
    axes.scatter(confidence, right, [140 * number / max(count) for number in count], color="#1b7f4d", zorder=3)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="confidence", ylabel="share of matches that are right")
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(FOLDER / "reliability.png", dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else REPORT)
