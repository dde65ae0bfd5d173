"""The report is one self-contained page."""

import re

from PIL import Image

from simsc.demo.page import Section, write_page


def test_page_holds_tables_and_pictures_without_outside_requests(tmp_path):
    section = Section(
        "A & B", "text <b>", table=[["", "x"], ["row", "1.5"]], pictures=[("one", Image.new("RGB", (4, 3)))]
    )
    page = write_page(tmp_path / "report.html", [section]).read_text(encoding="utf-8")
    assert "A &amp; B" in page
    assert "text &lt;b&gt;" in page
    assert "<td>1.5</td>" in page
    assert page.count("data:image/png;base64,") == 1
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "<script" not in page
