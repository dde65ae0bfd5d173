"""Panels side by side on a sheet, with a title above and room for a legend below."""

from __future__ import annotations

from collections.abc import Sequence

from simsc.pictures.canvas import Canvas, shorten, text_width
from simsc.pictures.panels import Panel
from simsc.pictures.style import CAPTION_SIZE, GAP, MARGIN, TITLE_SIZE

LINE = round(CAPTION_SIZE * 1.35)
NARROWEST = 24  # a panel's column, so that a strip one pixel wide still has room for its marker


def side_by_side(
    panels: Sequence[Panel],
    *,
    title: str | None = None,
    captions: Sequence[Sequence[str]] = (),
    footer: int = 0,
    least_width: int = 0,
) -> tuple[Canvas, list[Panel]]:
    """A sheet with the panels in a row, centred in their columns.

    Args:
        panels: what to show.
        title: written above, if given.
        captions: lines of text below each panel; a panel without any gets ``()``.
        footer: height in pixels to leave free at the bottom.
        least_width: the sheet is at least so wide.

    Returns:
        The sheet, with panels, title and captions on it, and the panels at their places.
    """
    columns = [max(panel.size[1], NARROWEST, *_widths(captions, i)) for i, panel in enumerate(panels)]
    row = max(panel.size[0] for panel in panels)
    top = MARGIN + (round(TITLE_SIZE * 1.6) if title else 0)
    below = LINE * max((len(lines) for lines in captions), default=0)
    content = sum(columns) + GAP * (len(panels) - 1)
    width = max(content, least_width) + 2 * MARGIN
    canvas = Canvas((top + row + (below and below + 6) + footer + MARGIN, width))
    if title:
        canvas.text((MARGIN, MARGIN), shorten(title, width - 2 * MARGIN, TITLE_SIZE), TITLE_SIZE)
    left, placed = MARGIN + (width - 2 * MARGIN - content) // 2, []
    for i, (panel, column) in enumerate(zip(panels, columns, strict=True)):
        here = panel.moved(left + (column - panel.size[1]) // 2, top + (row - panel.size[0]) // 2)
        canvas.paste(here.image, here.left, here.top)
        for number, line in enumerate(captions[i] if i < len(captions) else ()):
            canvas.text((left + column / 2, top + row + 5 + LINE * number), line, anchor="ma")
        placed.append(here)
        left += column + GAP
    return canvas, placed


def _widths(captions: Sequence[Sequence[str]], index: int) -> list[int]:
    return [text_width(line) for line in captions[index]] if index < len(captions) else []
