"""Downloads of data sets against a local server: resume, checksums, dead links, unsafe archives, counts."""

from __future__ import annotations

import hashlib
import io
import re
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from simsc.data import download as module
from simsc.data.catalog import Source
from simsc.data.download import download_dataset
from simsc.data.readers.pfpascal import PFPascal
from simsc.errors import DataError, DownloadError


class Server:
    """Serves bytes by path, honours Range, and can break a connection in the middle of a file."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ranges: list[str | None] = []
        self.break_after: int | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        content = self.files.get(request.path)
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        if content is None:
            return request.send_error(404)
        start = int(re.findall(r"\d+", asked)[0]) if asked else 0
        request.send_response(206 if asked else 200)
        if asked:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        request.send_header("ETag", '"one"')  # a part is continued only if the file is known to be the same
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        part = content[start:]
        if self.break_after is not None:
            part, self.break_after = part[: self.break_after], None
        request.wfile.write(part)
        return None

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.http.server_port}{path}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    running = Server()
    original = module.download

    def impatient(url: str, path: Path, **options: object) -> Path:
        return original(url, path, retries=1, wait=0.0, progress=False, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "download", impatient)
    yield running
    running.http.shutdown()
    running.http.server_close()


def zipped(folder: Path, top: str = "") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"{top}{path.relative_to(folder).as_posix()}")
    return stream.getvalue()


@pytest.fixture
def offered(server: Server, pfpascal: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The small PF-Pascal, offered as two archives like the real one."""
    server.files["/data.zip"] = zipped(pfpascal / "PF-dataset-PASCAL", "PF-dataset-PASCAL/")
    server.files["/lists.zip"] = zipped(pfpascal / "image_pairs", "image_pairs/")
    sources = (
        Source(server.url("/data.zip"), "data.zip", missing="get it elsewhere"),
        Source(server.url("/lists.zip"), "lists.zip", missing="put the lists into image_pairs"),
    )
    counts = {"train": (3, 6), "val": (1, 3), "test": (2, 5), "clean": (1, 3)}
    # None of its few test pairs is unseen.
    info = replace(PFPascal.info, sources=sources, counts=counts, splits=(*counts, "train-all"))
    monkeypatch.setattr(PFPascal, "info", info)
    return server


def test_archives_are_fetched_unpacked_and_their_digests_said(offered: Server, tmp_path: Path) -> None:
    said: list[str] = []
    files = download_dataset("pfpascal", tmp_path / "new", say=said.append)
    assert [file.files for file in files] == [6, 3]
    digest = hashlib.sha256(offered.files["/data.zip"]).hexdigest()
    assert files[0].sha256 == digest
    assert not files[0].verified
    assert any("no SHA-256 is recorded" in line and digest in line for line in said)
    assert not list((tmp_path / "new").glob("*.zip"))


def test_second_time_nothing_is_fetched(offered: Server, tmp_path: Path) -> None:
    first = download_dataset("pfpascal", tmp_path / "new", say=lambda _: None)
    requests = len(offered.ranges)
    assert download_dataset("pfpascal", tmp_path / "new", say=lambda _: None) == first
    assert len(offered.ranges) == requests


@pytest.mark.parametrize("note", [b"", b"nonsense", b"\xff\xfe", b"0" * 64 + b" many"])
def test_a_damaged_note_counts_as_none(offered: Server, tmp_path: Path, note: bytes) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".data.zip.sha256").write_bytes(note)
    assert [file.files for file in download_dataset("pfpascal", tmp_path / "new", say=lambda _: None)] == [6, 3]


def test_broken_connection_is_continued(offered: Server, tmp_path: Path) -> None:
    offered.break_after = 100
    download_dataset("pfpascal", tmp_path / "new", say=lambda _: None)
    assert offered.ranges[:2] == [None, "bytes=100-"]
    assert (tmp_path / "new/PF-dataset-PASCAL/JPEGImages/a.jpg").is_file()


def test_interrupted_download_is_continued_by_the_next_call(offered: Server, tmp_path: Path) -> None:
    part = tmp_path / "new/data.zip.part"
    part.parent.mkdir()
    part.write_bytes(offered.files["/data.zip"][:50])
    part.with_name("data.zip.part.tag").write_text('"one"')
    download_dataset("pfpascal", tmp_path / "new", say=lambda _: None)
    assert offered.ranges[0] == "bytes=50-"


def test_wrong_checksum(offered: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = PFPascal.info
    wrong = (replace(info.sources[0], sha256="0" * 64),)
    monkeypatch.setattr(PFPascal, "info", replace(info, sources=wrong))
    with pytest.raises(DownloadError, match="SHA-256"):
        download_dataset("pfpascal", tmp_path / "new", say=lambda _: None)
    assert not (tmp_path / "new/PF-dataset-PASCAL").exists()


def test_right_checksum(offered: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = PFPascal.info
    right = replace(info.sources[0], sha256=hashlib.sha256(offered.files["/data.zip"]).hexdigest())
    monkeypatch.setattr(PFPascal, "info", replace(info, sources=(right,)))
    said: list[str] = []
    assert download_dataset("pfpascal", tmp_path / "new", say=said.append)[0].verified
    assert not any("no SHA-256" in line for line in said)


def test_dead_link_says_what_to_do(offered: Server, tmp_path: Path) -> None:
    del offered.files["/lists.zip"]
    with pytest.raises(DownloadError, match=r"404.*lists\.zip.*put the lists into image_pairs"):
        download_dataset("pfpascal", tmp_path / "new", say=lambda _: None)


def test_file_put_there_by_hand_is_used(offered: Server, tmp_path: Path) -> None:
    lists = offered.files.pop("/lists.zip")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/lists.zip").write_bytes(lists)
    download_dataset("pfpascal", tmp_path / "new", say=lambda _: None)
    assert (tmp_path / "new/image_pairs/train_pairs.csv").is_file()


def test_unsafe_archive_is_refused(offered: Server, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("../evil.txt", "evil")
    offered.files["/data.zip"] = stream.getvalue()
    with pytest.raises(DataError, match="would leave the folder"):
        download_dataset("pfpascal", tmp_path / "new", say=lambda _: None)
    assert not (tmp_path / "evil.txt").exists()


def test_archives_can_be_kept(offered: Server, tmp_path: Path) -> None:
    download_dataset("pfpascal", tmp_path / "new", keep_archives=True, say=lambda _: None)
    assert {path.name for path in (tmp_path / "new").glob("*.zip")} == {"data.zip", "lists.zip"}


@pytest.mark.parametrize("name", ["ap10k", "coco", "pairs", "scenes"])
def test_no_direct_download(name: str) -> None:
    with pytest.raises(DataError, match="no direct download: "):
        download_dataset(name)


def test_command_counts_what_arrived(offered: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from simsc.cli.data import app

    result = CliRunner().invoke(app, ["download", "pfpascal", "--root", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    assert "no problems found" in result.output
    info = PFPascal.info
    monkeypatch.setattr(PFPascal, "info", replace(info, counts={"train": (4, 6)}))
    result = CliRunner().invoke(app, ["download", "pfpascal", "--root", str(tmp_path / "new")])
    assert result.exit_code == 1
    assert "train: 3 pairs, expected 4" in result.output
