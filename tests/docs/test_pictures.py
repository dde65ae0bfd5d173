"""The diagrams are those that their script draws from the pages as they are."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "images" / "diagrams.py"


@pytest.fixture(scope="module")
def diagrams():
    spec = importlib.util.spec_from_file_location("docs_diagrams", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_diagrams_are_up_to_date(diagrams):
    for name, draw in diagrams.PICTURES.items():
        assert (SCRIPT.parent / name).read_text(encoding="utf-8") == draw(), (
            f"run: python docs/images/diagrams.py ({name})"
        )


def test_the_house_shows_every_floor(diagrams):
    picture = diagrams.draw_house()
    assert len(diagrams.floors()) > 10
    assert all(f">{' · '.join(rooms)}<" in picture for rooms, _ in diagrams.floors())
