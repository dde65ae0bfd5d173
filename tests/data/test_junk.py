"""Whatever a value of an annotation is replaced by, the reader reads it or says a sentence; never anything else."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from simsc.data.sources import load_pairs
from simsc.errors import DataError

DOCS = Path(__file__).parents[2] / "docs/data.md"
JUNK = [None, True, -1, 1e9, 2.5, float("nan"), float("inf"), "", "text", "1", [], [1], [[1]], {}, {"a": 1}, [None]]
fuzz = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all nodes of nested lists and objects."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from places(child, (*path, key))


def damaged(content: Any, draw: st.DataObject) -> Any:
    """A copy with one node replaced or removed."""
    result = copy.deepcopy(content)
    place = draw.draw(st.sampled_from(list(places(content))))
    part = result
    for key in place[:-1]:
        part = part[key]
    if draw.draw(st.booleans()) and isinstance(part, dict):
        del part[place[-1]]
    else:
        part[place[-1]] = draw.draw(st.sampled_from(JUNK))
    return result


def reads_or_says_why(name: str, root: Path) -> None:
    with contextlib.suppress(DataError):
        pairs = load_pairs(name, root)
        assert all(len(pair.source_points) == len(pair.target_points) > 0 for pair in pairs)


@pytest.mark.parametrize("name", ["pairs", "coco"])
@fuzz
@given(draw=st.data())
def test_own_data(name: str, tmp_path: Path, draw: st.DataObject) -> None:
    for file in ("red.jpg", "blue.png", "robin.jpg", "wren.jpg"):
        if not (tmp_path / file).exists():
            Image.new("RGB", (100, 80)).save(tmp_path / file)
    blocks = re.findall(rf"```json {name}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "test.json").write_text(json.dumps(damaged(json.loads(blocks[0]), draw)))
    reads_or_says_why(name, tmp_path)


@fuzz
@given(draw=st.data())
def test_spair(spair: Path, draw: st.DataObject) -> None:
    path = spair / "ImageAnnotation/cat/b.json"
    original = path.read_text()
    path.write_text(json.dumps(damaged(json.loads(original), draw)))
    try:
        reads_or_says_why("spair", spair)
    finally:
        path.write_text(original)


@fuzz
@given(draw=st.data())
def test_ap10k(ap10k: Path, draw: st.DataObject) -> None:
    files = sorted(ap10k.glob("*Annotation/**/*.json"))
    path = draw.draw(st.sampled_from(files))
    original = path.read_text()
    path.write_text(json.dumps(damaged(json.loads(original), draw)))
    try:
        reads_or_says_why("ap10k", ap10k)
    finally:
        path.write_text(original)


@fuzz
@given(draw=st.data())
def test_csv_lists(pfpascal: Path, draw: st.DataObject) -> None:
    path = pfpascal / "image_pairs/test_pairs.csv"
    original = path.read_text()
    cells = re.split(r"([,;\n])", original)
    cells[draw.draw(st.integers(0, len(cells) - 1))] = draw.draw(st.sampled_from(["", "x", "nan", "1e9", ",", "\n"]))
    path.write_text("".join(cells))
    try:
        reads_or_says_why("pfpascal", pfpascal)
    finally:
        path.write_text(original)
