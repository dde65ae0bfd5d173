"""Extraction stays inside the folder, refuses links, and leaves nothing behind when it fails."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from simsc.data.archives import extract
from simsc.errors import DataError


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


MAKERS = {"a.zip": make_zip, "a.tar.gz": make_tar, "a.tar": lambda path, members: make_tar(path, members, "w")}


@pytest.mark.parametrize("name", MAKERS)
def test_files_are_unpacked_and_merged(tmp_path: Path, name: str) -> None:
    target = tmp_path / "out"
    (target / "set").mkdir(parents=True)
    (target / "set/old.txt").write_bytes(b"kept")
    (target / "set/b.txt").write_bytes(b"replaced")
    archive = MAKERS[name](tmp_path / name, {"set/b.txt": b"B", "set/deep/c.txt": b"C", "d.txt": b"D"})
    assert extract(archive, target) == 3
    found = {path.relative_to(target).as_posix(): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert found == {"set/old.txt": b"kept", "set/b.txt": b"B", "set/deep/c.txt": b"C", "d.txt": b"D"}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("member", ["../evil.txt", "set/../../evil.txt", "/evil.txt", "..\\evil.txt", "C:/evil.txt"])
def test_paths_that_leave_the_folder(tmp_path: Path, name: str, member: str) -> None:
    archive = MAKERS[name](tmp_path / name, {"good.txt": b"", member: b"evil"})
    with pytest.raises(DataError, match="would leave the folder"):
        extract(archive, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_tar_links_and_devices(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = kind, "/etc"
        archive.addfile(info)
    with pytest.raises(DataError, match="'link' is a link or a device"):
        extract(path, tmp_path / "out")


def test_zip_links(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc")
    with pytest.raises(DataError, match="'link' is a link"):
        extract(path, tmp_path / "out")


def test_files_of_operating_systems_are_skipped(tmp_path: Path) -> None:
    members = {"a.txt": b"", "__MACOSX/a.txt": b"", "set/.DS_Store": b"", "set/._a.txt": b""}
    assert extract(make_zip(tmp_path / "a.zip", members), tmp_path / "out") == 1


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_damaged_archives(tmp_path: Path, name: str) -> None:
    noise = bytes(range(256)) * 40
    archive = MAKERS[name](tmp_path / name, {"a.bin": noise, "b.bin": noise[::-1]})
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(DataError, match=r"damaged|neither a zip nor a tar"):
        extract(archive, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_damaged_content_of_a_zip(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", {"a.bin": b"0123456789" * 10})
    content = archive.read_bytes().replace(b"01234", b"98765", 1)
    archive.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        extract(archive, tmp_path / "out")


def test_error_page_instead_of_an_archive(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("<html>404</html>")
    with pytest.raises(DataError, match="server sent an error page"):
        extract(tmp_path / "a.zip", tmp_path / "out")


def test_more_than_the_disk_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("simsc.data.archives.shutil.disk_usage", lambda path: usage._replace(free=3))
    with pytest.raises(DataError, match="GB free"):
        extract(make_zip(tmp_path / "a.zip", {"a": b"1234"}), tmp_path / "out")
