"""The same predictions scored eight ways: the table of ``docs/protocols.md``.

    python docs/protocols.py p/pfpascal.jsonl p/pfwillow.jsonl p/spair.jsonl

Each file was written by ``simsc evaluate --predictions``; ``x-back.jsonl`` beside ``x.jsonl`` holds the other direction
(``--protocol cats-256``). Neither a network nor the data sets are needed here, and of this package only the formula
that moves points between frames. The first row is ``paper-256``, which ``simsc score`` gives to the same digits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from simsc.coordinates import resize_points

SIDE, CELLS = 256, 16  # the square images are resized to, and the cells of a plain ResNet's feature map on a side
ALPHAS = (0.01, 0.05, 0.1)
Line = dict[str, Any]
Boxes = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Rules:
    """One way to score. The defaults are ``paper-256``.

    Attributes:
        per: mean over pairs of the pair's share (``image``), or share of all points (``point``).
        frame: distances in the 256 x 256 ``square`` or in ``original`` pixels.
        strict: ``<`` instead of ``<=``.
        base: what alpha is a fraction of: the ``target``'s box, extent or image; the ``source``'s; the ``padded``
            extent, from the key-points and the -1 they are filled up with; or the original larger side times the
            vertical scale (``scale_y``).
        reading: where the centres of the outer cells lie: half a cell inside (``center``) or on the border
            (``corner``, PyTorch's ``align_corners=True``).
    """

    per: str = "image"
    frame: str = "square"
    strict: bool = False
    base: str = "target"
    reading: str = "center"


PAPER = Rules()
ROWS = {
    "`paper-256`: per image, 256 x 256, `<=`, target's threshold": PAPER,
    "1. per point": replace(PAPER, per="point"),
    "2. distances in original pixels": replace(PAPER, frame="original"),
    "3. `<` instead of `<=`": replace(PAPER, strict=True),
    "4. the source's threshold": replace(PAPER, base="source"),
    "5. padding counted into the extent": replace(PAPER, base="padded"),
    "6. threshold scaled by the height only": replace(PAPER, base="scale_y"),
    "7. grid read with aligned corners": replace(PAPER, reading="corner"),
}
BACK = "8. target to source, source's threshold"


def square(points: np.ndarray, size: list[int]) -> np.ndarray:
    """Points ``(n, 2)`` of an image of ``size`` (height, width) in the square frame."""
    return resize_points(points, (size[0], size[1]), (SIDE, SIDE))


def read_as_corners(points: np.ndarray) -> np.ndarray:
    """Points ``(n, 2)`` of the square, whose cells are now taken to reach from border to border."""
    cells = resize_points(points, (SIDE, SIDE), (CELLS, CELLS))
    return resize_points(cells, (CELLS, CELLS), (SIDE, SIDE), "corner")


def corners(line: Line, side: str, boxes: Boxes) -> np.ndarray:
    """The two corners ``(2, 2)`` in original pixels of what the data set's threshold is the larger side of."""
    if line["threshold"] == "img":
        height, width = line[f"{side}_size"]
        return np.array([[0.0, 0.0], [width, height]])
    if line["threshold"] == "kps":
        points = np.array(line[f"{side}_points"])
        return np.array([points.min(0), points.max(0)])
    return np.reshape(boxes[line[side], line["category"]], (2, 2)).astype(float)


def theta(line: Line, rules: Rules, boxes: Boxes) -> float:
    """The length alpha is a fraction of."""
    side = "source" if rules.base == "source" else "target"
    ends, size = corners(line, side, boxes), line[f"{side}_size"]
    if rules.base == "scale_y" and rules.frame == "square":
        return float(np.ptp(ends, axis=0).max()) * SIDE / int(size[0])
    if rules.frame == "square":
        ends = square(ends, size)
    if rules.base == "padded" and line["threshold"] == "kps":
        ends[0] = -1.0
    return float(np.ptp(ends, axis=0).max())


def distances(line: Line, rules: Rules) -> np.ndarray:
    """How far each of the ``n`` predictions is off, in the frame of the rules."""
    size = (line["target_size"][0], line["target_size"][1])
    truth, found = np.array(line["target_points"]), np.array(line["predicted"])
    if rules.reading == "corner":
        found = resize_points(read_as_corners(square(found, line["target_size"])), (SIDE, SIDE), size)
    if rules.frame == "square":
        truth, found = square(truth, line["target_size"]), square(found, line["target_size"])
    return np.asarray(np.linalg.norm(found - truth, axis=1))


def score(lines: list[Line], rules: Rules, boxes: Boxes) -> list[float]:
    """PCK in percent at each alpha."""
    right = []
    for line in lines:
        away, base = distances(line, rules)[:, None], theta(line, rules, boxes)
        limit = base * np.array(ALPHAS)
        right.append(away < limit if rules.strict else away <= limit)
    mean = np.mean([item.mean(0) for item in right], 0) if rules.per == "image" else np.concatenate(right).mean(0)
    return [100 * float(value) for value in mean]


def combinations(threshold: str) -> Iterable[Rules]:
    """Every mixture of the first seven ways that changes something for a data set's threshold."""
    bases = ["target", "source", "scale_y"] + ["padded"] * (threshold == "kps")
    for per, frame, strict, base, reading in product(
        ("image", "point"), ("square", "original"), (False, True), bases, ("center", "corner")
    ):
        yield Rules(per, frame, strict, base, reading)


def read(path: Path) -> tuple[list[Line], Boxes]:
    """The lines of a file, and the boxes of its images: every image of SPair-71k is some pair's target."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return lines, {(line["target"], line["category"]): line["target_box"] for line in lines}


def main() -> None:
    """Print the table, and the range that all mixtures of the ways span."""
    parser = argparse.ArgumentParser(description="Score the same predictions in eight ways.")
    parser.add_argument("files", nargs="+", type=Path, help="predictions of `simsc evaluate --predictions`")
    files = parser.parse_args().files
    table: dict[str, list[str]] = {name: [] for name in (*ROWS, BACK, "lowest and highest mixture of 1 to 7, at 0.1")}
    cells = list(table.values())
    for path in files:
        lines, boxes = read(path)
        for cell, rules in zip(cells, ROWS.values(), strict=False):
            same = rules.base == "padded" and lines[0]["threshold"] != "kps"
            cell.append("" if same else " / ".join(f"{value:.1f}" for value in score(lines, rules, boxes)))
        back = path.with_name(f"{path.stem}-back.jsonl")
        cells[-2].append(" / ".join(f"{value:.1f}" for value in score(read(back)[0], PAPER, read(back)[1])))
        spread = [score(lines, rules, boxes)[-1] for rules in combinations(lines[0]["threshold"])]
        cells[-1].append(f"{min(spread):.1f} to {max(spread):.1f}")
    print("| scored | " + " | ".join(path.stem for path in files) + " |\n" + "|---" * (len(files) + 1) + "|")
    for name, row in table.items():
        print(f"| {name} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
