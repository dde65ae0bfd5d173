"""MkDocs hook: pages that are files of the repository's root, so that nothing is written twice."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CHANGELOG.md": "changelog.md",
    "examples/photos/README.md": "photos.md",
}
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#\s]+)(#[^)\s]*)?\)")

NAMED_FENCE = re.compile(r"^(```\w+) \w+$", re.MULTILINE)
"""The second word is for the tests that run the block; the site's Markdown would not know the fence for it."""
SHIM = re.compile(r'<script src="https://unpkg[.]com/iframe-worker/shim"></script>')


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Put ``assets/offline-search.js`` where the plugin ``offline`` would fetch a script that does the same."""
    return SHIM.sub(f'<script src="{get_relative_url("assets/offline-search.js", page.url)}"></script>', output)


def on_post_template(output_content: str, **_: object) -> str:
    """Pages without Markdown (404) fetch nothing either."""
    return SHIM.sub("", output_content)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the root's pages, their links led to where the targets are on the site."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=relinked(text, posixpath.dirname(source))))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links of pages in ``docs/`` to files of the root to their pages."""
    markdown = NAMED_FENCE.sub(r"\1", markdown)
    if page.file.src_uri in PAGES.values():
        return markdown
    return relinked(markdown, posixpath.dirname(f"docs/{page.file.src_uri}"))


def relinked(text: str, folder: str) -> str:
    """Markdown whose relative links, seen from ``folder`` of the repository, point to pages of the site.

    Files of the repository that are no page become plain text: the site has no place for them.
    """

    def lead(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in PAGES:
            path = f"docs/{PAGES[path]}"
        if not path.startswith("docs/") or (ROOT / path).is_dir():
            return label.strip("![]")
        start = folder if folder.startswith("docs") else "docs"
        return f"{label}({posixpath.relpath(path, start)}{anchor})"

    return LINK.sub(lead, text)
