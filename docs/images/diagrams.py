"""Draw the two diagrams: the floors of the house, read off ``docs/architecture.md``, and the way of one match.

Run from the project's folder: ``python docs/images/diagrams.py``; a test compares the files with what it draws.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
INK, MUTED, PAPER, LINE = "#1c2430", "#59647a", "#ffffff", "#9aa6b8"
FILLS = ("#e3f2ef", "#d3eae5", "#fdebdd")
FONT = 'font-family="DejaVu Sans, Verdana, sans-serif"'


def text(
    x: float, y: float, words: str, size: int = 14, color: str = INK, anchor: str = "start", bold: bool = False
) -> str:
    """A line of text at a baseline."""
    style = f'font-size="{size}" fill="{color}" text-anchor="{anchor}"' + (' font-weight="bold"' if bold else "")
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    """A rectangle with round corners."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{fill}" stroke="{LINE}"/>'


def arrow(*places: float) -> str:
    """A line through places ``x, y, x, y, ...`` with a head at its end."""
    way = "L".join(f"{x:g} {y:g}" for x, y in zip(places[::2], places[1::2], strict=True))
    return f'<path d="M{way}" fill="none" stroke="{MUTED}" stroke-width="1.6" marker-end="url(#head)"/>'


def sheet(width: int, height: int, title: str, parts: list[str]) -> str:
    """A picture with its title for those who cannot see it."""
    head = (
        f'<marker id="head" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{MUTED}"/></marker>'
    )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {FONT}>\n'
        f"<title>{escape(title)}</title>\n<defs>{head}</defs>\n"
        f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>\n{body}\n</svg>\n'
    )


def floors() -> list[tuple[list[str], str]]:
    """Rooms and description of each floor, the ground floor first, as the page writes them."""
    page = (FOLDER.parent / "architecture.md").read_text(encoding="utf-8")
    lines = page.split("```")[1].strip().splitlines()
    found = [re.match(r"(\w+/?(?:  \w+/?)*)\s*(.*)", line) for line in lines]
    return [(match[1].split(), match[2].strip()) for match in found if match]


def draw_house() -> str:
    """The floors, the highest on top; a room may import from its own floor and from those below."""
    rows, parts = floors(), []
    step, left, width = 54, 64, 856
    for number, (rooms, about) in enumerate(reversed(rows)):
        top = 24 + number * step
        parts.append(box(left, top, width, step - 8, FILLS[number % 2]))
        names = " · ".join(rooms)
        about = re.sub(r"\s{2,}", ", ", about).replace("all of the above", "all of the others")
        if len(rooms) > 4:
            parts += [text(left + 14, top + 20, names, 12, bold=True), text(left + 14, top + 38, about, 12, MUTED)]
        else:
            parts += [text(left + 14, top + 28, names, 14, bold=True), text(left + 190, top + 28, about, 12, MUTED)]
    bottom = 24 + len(rows) * step
    parts.append(arrow(36, 34, 36, bottom - 18))
    label = text(0, 0, "imports go down, never up", 13, MUTED, "middle")
    parts.append(f'<g transform="translate(26 {bottom / 2:g}) rotate(-90)">{label}</g>')
    return sheet(940, bottom + 12, "The rooms of the package, floor by floor", parts)


def draw_match() -> str:
    """From two images and a point to a match, with the file of each step."""
    parts: list[str] = []
    middle = 108
    steps = [
        (24, 112, "two images", "images.py", FILLS[0]),
        (168, 118, "backbone", "models/", FILLS[0]),
        (318, 128, "unit features", "matching/features", FILLS[0]),
        (478, 128, "similarities", "matching/scores", FILLS[0]),
        (638, 118, "softmax", "÷ temperature", FILLS[2]),
        (788, 128, "peak", "matching/localize", FILLS[0]),
    ]
    for (x, width, name, where, fill), after in zip(steps, [*steps[1:], None], strict=True):
        parts += [
            box(x, middle - 34, width, 68, fill),
            text(x + width / 2, middle - 4, name, 15, INK, "middle", bold=True),
        ]
        parts.append(text(x + width / 2, middle + 18, where, 11, MUTED, "middle"))
        if after:
            parts.append(arrow(x + width + 3, middle, after[0] - 4, middle))
    parts += [
        box(318, 196, 288, 56, FILLS[2]),
        text(462, 220, "temperature of each image, learned", 13, INK, "middle", bold=True),
        text(462, 239, "models/temperature: two layers on the mean", 11, MUTED, "middle"),
        arrow(227, middle + 36, 227, 224, 314, 224),
        arrow(606, 224, 697, 224, 697, middle + 38),
        text(542, 50, "a point of the first image", 12, MUTED, "middle"),
        arrow(542, 56, 542, middle - 38),
        text(852, 184, "the point in the second,", 12, MUTED, "middle"),
        text(852, 201, "confidence, status", 12, MUTED, "middle"),
        arrow(852, middle + 36, 852, 168),
    ]
    return sheet(940, 272, "The way of one match: features, similarities, temperature, peak", parts)


PICTURES = {"architecture.svg": draw_house, "match.svg": draw_match}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
