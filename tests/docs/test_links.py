"""Links between pages lead somewhere: to files of the repository and to headings of them; pictures are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import simsc

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def slug(heading: str) -> str:
    """The anchor of a heading, as Markdown viewers make it.

    >>> slug("SPair-71k: `spair`, or *that*?")
    'spair-71k-spair-or-that'
    """
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")


def anchors(text: str) -> set[str]:
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {slug(line.lstrip("#")) for line in plain.splitlines() if re.match(r"#+ ", line)}


def test_links_lead_to_files_and_headings(pages) -> None:
    if not (ROOT / "examples").is_dir():
        pytest.skip("the source distribution leaves pictures and examples out")
    checked = 0
    for page, text in pages.items():
        prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
        for target in LINK.findall(prose):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = ((ROOT / page).parent / name).resolve() if name else ROOT / page
            assert path.exists(), f"{page}: {target}"
            if anchor:
                assert anchor in anchors(path.read_text(encoding="utf-8")), f"{page}: {target}"
            checked += 1
    assert checked > 100


def test_every_page_is_in_the_navigation(pages) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    missing = [page for page in pages if page.startswith("docs/") and f" {Path(page).name}\n" not in navigation]
    assert not missing


def test_the_api_page_has_every_public_name(pages) -> None:
    shown = set(re.findall(r"^::: simsc\.(\w+)$", pages["docs/api.md"], re.MULTILINE))
    assert set(simsc.__all__) - {"__version__"} <= shown
