"""Files of others: what cannot be used is refused in one sentence with the file and the place in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simsc.errors import DataError
from simsc.reading import (
    below,
    check_file,
    is_file,
    parse_json,
    read_bytes,
    read_csv,
    read_json,
    read_json_lines,
    read_text,
    read_yaml,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested more than 64 levels"),
        ("[" * 65 + "]" * 65, "nested more than 64 levels"),
        ('{"a": ' * 900 + "1" + "}" * 900, "nested more than 64 levels"),
        ('{"a": [1, ' + "9" * 5000 + "]}", r"x: 'a\[1\]' is not a finite number"),
        ('{"a": [NaN]}', r"x: 'a\[0\]' is not a finite number"),
        ('[{"b": -Infinity}]', r"x: '\[0\].b' is not a finite number"),
        ("1e999", "x: the value is not a finite number"),
        (r'["\ud800"]', r"x: '\[0\]' holds half a character"),
        (r'{"\udfff": 1}', "x: a name holds half a character"),
        ("{", r"x: not valid JSON \(.*line 1, column 2"),
        ("", "x: not valid JSON"),
    ],
)
def test_json_that_nobody_should_believe(text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        parse_json(text, "x")


def test_json_that_is_fine() -> None:
    deep: list[object] = []
    for _ in range(62):
        deep = [deep]
    assert parse_json(str(deep), "x") == deep
    assert parse_json(r'{"a": "\ud83d\ude00", "b": -1.5e3, "c": 9007199254740993}', "x") == {
        "a": "😀",
        "b": -1500.0,
        "c": 9007199254740993,
    }
    assert parse_json("[1e400, NaN]", "x", finite=False)[0] == float("inf")
    assert parse_json("1" * 30, "x") == pytest.approx(1.1111111111e29)


def test_lines_end_where_json_says(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"a": "one\u2028two"}\n\n[2]\n', encoding="utf-8")
    assert [value for _, value in read_json_lines(file)] == [{"a": "one\u2028two"}, [2]]
    file.write_text("[1]\n[")
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: not valid JSON"):
        list(read_json_lines(file))


def test_pipes_devices_and_folders_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(DataError, match="not a regular file"):
            read_text(path)
        assert not is_file(path)
    with pytest.raises(DataError, match="is a folder"):
        read_text(tmp_path)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "file/inside"])
def test_names_that_no_file_has(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be read"):
        read_text(tmp_path / name)
    assert not is_file(tmp_path / name)


def test_size_is_limited(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"123")
    assert read_bytes(file, 3) == b"123"
    assert check_file(file, 3) == file
    with pytest.raises(DataError, match="3 bytes, more than the 2"):
        read_bytes(file, 2)
    with pytest.raises(DataError, match="more than the 10 bytes"):  # says that it is empty
        read_bytes("/proc/self/status", 10)


def test_text_is_utf8(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc\xff")
    with pytest.raises(DataError, match=r"not UTF-8 text \(invalid start byte at byte 3"):
        read_text(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf[1]")
    assert read_json(tmp_path / "a") == [1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1," + "2" * 200_000, "field larger than"),
        ("a,b\n1,2,3\n", "line 2: has 3 columns, the header 2"),
        ("a,b\n1\n", "line 2: column 'b' is empty"),
        ("a\n1\n", "column 'b' is missing"),
        ("", "column 'a' is missing"),
        ('a,b\n"1,2\n', "unexpected end of data"),
    ],
)
def test_tables(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=words):
        read_csv(tmp_path / "t.csv", ("a", "b"))


def test_table_with_further_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a,b,c\n1, 2\n\n"x,y",2,3\n')
    rows = read_csv(tmp_path / "t.csv", ("a", "b"))
    assert rows == [{"a": "1", "b": "2", "c": ""}, {"a": "x,y", "b": "2", "c": "3"}]


@pytest.mark.parametrize("text", ["a: [", "!!python/object/apply:os.system [ls]", "[" * 5000, "a: 1\n\tb: 2"])
def test_yaml(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(DataError, match=r"a\.yaml: not valid YAML"):
        read_yaml(tmp_path / "a.yaml")


@pytest.mark.parametrize("name", ["/etc/passwd", "../a", "a/../../b", "C:/a", "\\\\server\\a", "a\0"])
def test_nothing_leaves_the_root(name: str) -> None:
    with pytest.raises(DataError, match="would leave the folder"):
        below(Path("set"), name, "list")
