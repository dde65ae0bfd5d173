"""The page's colours are those of all pictures."""

from __future__ import annotations

import re

from simsc.matching import LOCALIZERS
from simsc.pictures import style
from simsc.pictures.style import MATCHES, STATUS, hexadecimal
from simsc.web.app import STATIC


def test_points_have_the_palette_of_the_pictures() -> None:
    palette = re.search(r"PALETTE = \[(.*?)\]", (STATIC / "stage.js").read_text(encoding="utf-8"))
    assert palette is not None
    assert re.findall(r"#\w{6}", palette[1]) == [hexadecimal(color) for color in MATCHES]


def test_the_heatmap_has_the_ramp_of_the_pictures() -> None:
    text = (STATIC / "heatmap.js").read_text(encoding="utf-8")
    numbers = [[int(value) for value in row] for row in re.findall(r"\[(\d+), (\d+), (\d+)\]", text)]
    assert numbers == style._RAMP.tolist()


def test_verdicts_have_the_colours_of_the_pictures() -> None:
    text = (STATIC / "style.css").read_text(encoding="utf-8")
    for verdict, color in STATUS.items():
        assert f".{verdict} {{ --color: {hexadecimal(color)} !important; }}" in text


def test_the_page_computes_the_packages_own_localizers() -> None:
    computed = re.search(r"COMPUTED = \[(.*?)\]", (STATIC / "distribution.js").read_text(encoding="utf-8"))
    assert computed is not None
    assert re.findall(r'"([^"]+)"', computed[1]) == list(LOCALIZERS.own)
