"""The page's colours are those of all pictures."""

from __future__ import annotations

import re

from simsc.pictures import style
from simsc.pictures.style import MATCHES, hexadecimal
from simsc.web.app import STATIC


def test_points_have_the_palette_of_the_pictures() -> None:
    palette = re.search(r"PALETTE = \[(.*?)\]", (STATIC / "stage.js").read_text(encoding="utf-8"))
    assert palette is not None
    assert re.findall(r"#\w{6}", palette[1]) == [hexadecimal(color) for color in MATCHES]


def test_the_heatmap_has_the_ramp_of_the_pictures() -> None:
    text = (STATIC / "heatmap.js").read_text(encoding="utf-8")
    numbers = [[int(value) for value in row] for row in re.findall(r"\[(\d+), (\d+), (\d+)\]", text)]
    assert numbers == style._RAMP.tolist()
