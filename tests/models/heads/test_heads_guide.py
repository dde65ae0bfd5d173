"""The example of the guide runs as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from simsc.models.heads import HEADS, head_options
from simsc.models.model import SimSC

GUIDE = Path(__file__).parents[3] / "docs" / "heads.md"


@pytest.fixture
def example() -> Iterator[str]:
    """The guide's only block of Python; what it registers is forgotten afterwards."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    yield code
    HEADS._items.pop("neighbourhood", None)


def test_the_example_is_a_head_like_any_other(tiny, example):
    exec(example, {})
    model = SimSC(tiny("resnet"), head="neighbourhood:window=1", temperature="fixed:0.5").eval()
    image = model.encode(torch.rand(1, 3, 64, 96))
    points = torch.tensor([[[20.0, 30.0]]])
    plain = SimSC(model.backbone, temperature="fixed:0.5").eval()
    torch.testing.assert_close(model.score_maps(image, image, points), plain.score_maps(image, image, points))
    assert head_options("neighbourhood") == {"window": 3, "weight": 0.5}


@pytest.mark.parametrize("name", [name for name in HEADS if name != "none"])
def test_the_guide_names_every_option(name):
    options = GUIDE.read_text(encoding="utf-8").split("options (default)")[1]
    row = next(line for line in options.splitlines() if line.startswith(f"| `{name}` |"))
    assert [option for option in head_options(name) if f"`{option}`" not in row] == []
