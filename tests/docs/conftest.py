"""What the tests of the documentation share: its pages, the fenced blocks in them, and where they are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
LISTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/photos/README.md")


class Block(NamedTuple):
    """A fenced block: what stands behind its fence, and its text."""

    language: str
    text: str


@pytest.fixture(scope="session")
def pages() -> dict[str, str]:
    """The text of every page, by its path in the repository."""
    paths = [*(ROOT / name for name in LISTS), *sorted((ROOT / "docs").glob("*.md"))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths if path.is_file()}


@pytest.fixture(scope="session")
def blocks(pages: dict[str, str]) -> dict[str, list[Block]]:
    """The fenced blocks of every page."""
    return {page: _blocks(text) for page, text in pages.items()}


def _blocks(text: str) -> list[Block]:
    found: list[Block] = []
    opened: tuple[str, list[str]] | None = None
    for line in text.splitlines():
        if not line.lstrip().startswith("```"):
            if opened is not None:
                opened[1].append(line)
        elif opened is None:
            opened = line.strip().strip("`"), []
        else:
            found.append(Block(opened[0], "\n".join(opened[1])))
            opened = None
    assert opened is None, "a fence is not closed"
    return found
