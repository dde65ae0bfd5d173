"""One self-contained HTML page: no script, no outside request."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from simsc.files import write_text

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.2rem; font-size: 1.25rem; }
table { border-collapse: collapse; }
th, td { padding: .35rem .9rem; border-bottom: 1px solid #d5dae2; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 1rem; }
.pictures.single { grid-template-columns: 1fr; }
figure { margin: 0; } figure img { width: 100%; height: auto; border-radius: 6px; } figcaption { color: #59647a; }
@media (prefers-color-scheme: dark) { body { background: #14181f; color: #e4e8ef; } th, td { border-color: #3a4454; } }
"""


@dataclass(frozen=True)
class Section:
    """A part of the page: a title, a sentence, and a table or captioned pictures."""

    title: str
    text: str
    table: list[list[str]] = field(default_factory=list)
    pictures: list[tuple[str, Image.Image]] = field(default_factory=list)

    def to_html(self) -> str:
        """The section as HTML, pictures included."""
        parts = [f"<h2>{html.escape(self.title)}</h2>", f"<p>{html.escape(self.text)}</p>"]
        if self.table:
            parts.append(_table(self.table))
        if self.pictures:
            single = " single" if len(self.pictures) == 1 else ""
            parts.append(f'<div class="pictures{single}">{"".join(_figure(*item) for item in self.pictures)}</div>')
        return "\n".join(parts)


def write_page(path: Path, sections: list[Section]) -> Path:
    """Write the report atomically."""
    body = "\n".join(section.to_html() for section in sections)
    write_text(
        path,
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>SimSC demonstration</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>SimSC: semantic correspondence with temperature learning</h1>\n{body}\n</body></html>\n",
    )
    return path


def _table(rows: list[list[str]]) -> str:
    head, *body = rows
    cells = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


def _figure(caption: str, picture: Image.Image) -> str:
    stream = io.BytesIO()
    picture.convert("RGB").save(stream, "PNG", optimize=True)
    data = base64.b64encode(stream.getvalue()).decode()
    note = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f'<figure><img alt="{html.escape(caption or "picture")}" src="data:image/png;base64,{data}">{note}</figure>'
