from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from simsc.downloads import download
from simsc.errors import DownloadError

CONTENT = bytes(range(256)) * 4096  # 1 MiB
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT at /file; ``cut`` breaks that many connections half-way, ``ranges`` allows resuming."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cut, self.ranges, self.requested = 0, True, []
        self.content, self.tag, self.knows_if_range, self.conditions = CONTENT, "", True, []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
        self.server.requested.append(asked)
        self.server.conditions.append(condition)
        if self.path != "/file":
            self.send_error(404)
            return
        start = int(asked[6:-1]) if asked and self.server.ranges else 0
        if condition and self.server.knows_if_range and condition != self.server.tag:
            start = 0
        size = len(self.server.content)
        if start >= size:
            self.refuse_range()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        if self.server.tag:
            self.send_header("ETag", self.server.tag)
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        self.wfile.write(self.body(start))

    def body(self, start: int) -> bytes:
        content = self.server.content
        if not self.server.cut:
            return content[start:]
        self.server.cut -= 1
        return content[start : start + (len(content) - start) // 2]

    def refuse_range(self) -> None:
        self.send_response(416)
        self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_writes_the_file_and_reports_progress(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = download(server.url, tmp_path / "new" / "file.bin", sha256=DIGEST, progress=lambda *s: seen.append(s))
    assert path.read_bytes() == CONTENT
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_first_digits_of_the_checksum_suffice(server: Server, tmp_path: Path) -> None:
    assert download(server.url, tmp_path / "a", sha256=DIGEST[:8].upper(), progress=False).exists()


def test_intact_file_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    download(server.url, tmp_path / "a", sha256=DIGEST, progress=False)
    assert server.requested == []


def test_damaged_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"half")
    assert download(server.url, tmp_path / "a", sha256=DIGEST, progress=False).read_bytes() == CONTENT


def test_part_of_an_earlier_call_is_continued(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT[:1000])
    assert download(server.url, tmp_path / "a", sha256=DIGEST, progress=False).read_bytes() == CONTENT
    assert server.requested == ["bytes=1000-"]


def test_broken_connections_are_resumed(server: Server, tmp_path: Path) -> None:
    server.cut = 2
    download(server.url, tmp_path / "a", sha256=DIGEST, progress=False, wait=0)
    half = len(CONTENT) // 2
    assert server.requested == [None, f"bytes={half}-", f"bytes={half + half // 2}-"]


@pytest.mark.parametrize("knows_if_range", [True, False])
@pytest.mark.parametrize("changed", [True, False])
def test_a_part_is_continued_only_if_the_file_is_still_the_same(
    server: Server, tmp_path: Path, changed: bool, knows_if_range: bool
) -> None:
    server.cut, server.tag, server.knows_if_range = 1, '"one"', knows_if_range
    with pytest.raises(DownloadError):
        download(server.url, tmp_path / "a", progress=False, retries=0)
    if changed:
        server.content, server.tag = CONTENT[::-1], '"two"'
    assert download(server.url, tmp_path / "a", progress=False).read_bytes() == server.content
    assert server.conditions[1] == '"one"'
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "a.sha256"]


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_a_part_that_nothing_vouches_for_is_fetched_again(server: Server, tmp_path: Path, tag: str) -> None:
    server.cut, server.tag = 1, tag
    with pytest.raises(DownloadError):
        download(server.url, tmp_path / "a", progress=False, retries=0)
    server.content = CONTENT[::-1]
    assert download(server.url, tmp_path / "a", progress=False).read_bytes() == server.content
    assert server.requested == [None, None]


@pytest.mark.parametrize("tag", [b"\xff\xfe", b'"one"\r\nX-Other: 1', b"x" * 5000])
def test_a_damaged_tag_counts_as_none(server: Server, tmp_path: Path, tag: bytes) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT[:10])
    (tmp_path / "a.part.tag").write_bytes(tag)
    assert download(server.url, tmp_path / "a", progress=False).read_bytes() == CONTENT
    assert server.requested == [None]


def test_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "a.part").write_bytes(b"x" * 1000)
    assert download(server.url, tmp_path / "a", sha256=DIGEST, progress=False).read_bytes() == CONTENT


@pytest.mark.parametrize("extra", [b"", b"too long"])
def test_part_that_is_complete_or_too_long(server: Server, tmp_path: Path, extra: bytes) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT + extra)
    assert download(server.url, tmp_path / "a", sha256=DIGEST, progress=False).read_bytes() == CONTENT


def test_wrong_checksum_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=f"SHA-256 is {DIGEST}, expected 00000000"):
        download(server.url, tmp_path / "a", sha256="00000000", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_missing_page_fails_at_once_and_says_where_to_put_the_file(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"HTTP 404 .*put it at .*wanted\.bin"):
        download(server.url + "x", tmp_path / "wanted.bin", progress=False)
    assert len(server.requested) == 1
    assert list(tmp_path.iterdir()) == []


def test_interrupted_download_keeps_its_part(server: Server, tmp_path: Path) -> None:
    server.cut = 1
    with pytest.raises(DownloadError, match="the connection ended after"):
        download(server.url, tmp_path / "a", progress=False, retries=0)
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "a.part").stat().st_size == len(CONTENT) // 2


def test_unreachable_host_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="no connection"):
        download("http://127.0.0.1:9/file", tmp_path / "a", progress=False, retries=0)


def test_simultaneous_downloads_share_one_transfer(server: Server, tmp_path: Path) -> None:
    def fetch() -> None:
        download(server.url, tmp_path / "a", sha256=DIGEST, progress=False)

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert len(server.requested) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_file_addresses_work(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(CONTENT)
    url = (tmp_path / "source").as_uri()
    assert download(url, tmp_path / "a", sha256=DIGEST, progress=False).read_bytes() == CONTENT
