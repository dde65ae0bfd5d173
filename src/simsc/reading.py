"""Files that somebody else wrote, read with care: regular files of bounded size, refused in a sentence that names them.

Text, JSON, CSV and YAML are read here and nowhere else, so that what a file must not do to us (be endless, nest a
thousand levels deep, hold a number of five thousand digits or half a character) is checked once for all readers.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import numpy as np

from simsc.errors import DataError

Kind = TypeVar("Kind")

TEXT_LIMIT = 512 << 20
"""Largest text file in bytes; the largest annotations in use, COCO's, have half of that."""
_LONGEST_NUMBER = 19  # digits of a whole number: more do not fit into 64 bits
_DEEPEST = 64
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def check_file(path: str | Path, limit: int | None = None, what: str = "file") -> Path:
    """The path of a regular file of at most ``limit`` bytes; a folder, a device, a pipe is refused unopened."""
    path = Path(path)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise DataError(f"{_shown(path)}: no such {what}") from None
    except (OSError, ValueError) as error:  # a name that is too long, below a file, or with a NUL in it
        raise DataError(f"{_shown(path)}: cannot be read ({_reason(error)})") from None
    if stat.S_ISDIR(status.st_mode):
        raise DataError(f"{path}: is a folder, not {'an' if what[0] in 'aeiou' else 'a'} {what}")
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path}: is a device, a pipe or a socket, not a regular file")
    if limit is not None and status.st_size > limit:
        raise DataError(f"{path}: has {status.st_size:,} bytes, more than the {limit:,} that are read")
    return path


def is_file(path: Path) -> bool:
    """Whether there is a regular file, also for names that no file can have."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def below(root: Path, name: str, where: object) -> Path:
    """``root / name`` for a name that a file gave; one that would leave ``root`` is refused.

    >>> below(Path("set"), "birds/a.jpg", "list.txt").as_posix()
    'set/birds/a.jpg'
    >>> below(Path("set"), "../a.jpg", "list.txt")
    Traceback (most recent call last):
    simsc.errors.DataError: list.txt: '../a.jpg' would leave the folder of the data set
    """
    path = PurePosixPath(name.replace("\\", "/"))
    drive = len(path.parts) > 0 and path.parts[0].endswith(":")  # C:/...
    if path.is_absolute() or drive or ".." in path.parts or "\0" in name:
        raise DataError(f"{where}: {name[:80]!r} would leave the folder of the data set")
    return root.joinpath(*path.parts)


def read_bytes(path: str | Path, limit: int = TEXT_LIMIT) -> bytes:
    """The content of a regular file of at most ``limit`` bytes."""
    path = check_file(path, limit)
    try:
        with path.open("rb") as stream:
            content = stream.read(limit + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({_reason(error)})") from None
    if len(content) > limit:  # it grew, or, like the files of /proc, does not say its size
        raise DataError(f"{path}: has more than the {limit:,} bytes that are read")
    return content


def read_text(path: str | Path, limit: int = TEXT_LIMIT) -> str:
    """The content of a UTF-8 file."""
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None


def read_json(path: str | Path, finite: bool = True) -> Any:
    """The content of a JSON file; ``finite`` as of :func:`parse_json`."""
    return parse_json(read_text(path), path, finite)


def parse_json(text: str, where: object, finite: bool = True) -> Any:
    """The value of a JSON text that came from ``where``.

    Args:
        text: the JSON.
        where: the file, and the line of it, for the sentence of a refusal.
        finite: refuse NaN, Infinity and numbers that become it; False where our own files hold them.
    """
    numbers = _Numbers()
    try:
        value = json.loads(text, parse_int=numbers.whole, parse_float=numbers.real, parse_constant=numbers.constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise DataError(f"{where}: not valid JSON ({error.msg}, {place})") from None
    except RecursionError:
        raise DataError(f"{where}: nested more than {_DEEPEST} levels deep") from None
    _check_depth(value, where)
    if numbers.refused and finite:
        place = _place_of(value, lambda part: isinstance(part, float) and not math.isfinite(part))
        raise DataError(f"{where}: {place} is not a finite number")
    if _HALF_CHARACTER.search(text) and (place := _place_of(value, _is_half_character)):
        raise DataError(f"{where}: {place} holds half a character (a lone surrogate)")
    return value


def read_json_lines(path: str | Path) -> Iterator[tuple[str, Any]]:
    """``(file and line, value)`` of every line of JSON that is not blank."""
    # Not splitlines(), which also breaks at signs that JSON allows inside a text.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, parse_json(line, where)


def read_csv(path: Path, required: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a CSV file with a header; ``required`` columns must exist and be filled in every row."""
    try:
        lines = list(csv.reader(io.StringIO(read_text(path), newline=""), skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise DataError(f"{path}: not a readable CSV file ({error})") from None
    filled = [(number, line) for number, line in enumerate(lines, start=1) if line]
    header = filled[0][1] if filled else []
    if missing := [column for column in required if column not in header]:
        raise DataError(f"{path}: column '{missing[0]}' is missing; the header needs {', '.join(required)}")
    rows = []
    for number, line in filled[1:]:
        if len(line) > len(header):
            raise DataError(f"{path}, line {number}: has {len(line)} columns, the header {len(header)}")
        row = dict(zip(header, [*line, *[""] * (len(header) - len(line))], strict=True))
        if empty := [column for column in required if not row[column]]:
            raise DataError(f"{path}, line {number}: column '{empty[0]}' is empty")
        rows.append(row)
    return rows


def read_yaml(path: Path) -> Any:
    """The content of a YAML file of plain values."""
    import yaml

    try:
        return yaml.safe_load(read_text(path, limit=1 << 20))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DataError(f"{path}: not valid YAML ({' '.join(str(error).split())[:200]})") from None


def typed_field(content: Any, name: str, kind: type[Kind], where: object) -> Kind:
    """``content[name]``, which must be of a kind: ``dict``, ``list``, ``str`` or ``int``."""
    value = content.get(name) if isinstance(content, dict) else None
    if value is None:
        raise DataError(f"{where}: the field '{name}' is missing")
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = {"dict": "an object", "list": "a list", "str": "a text", "int": "a whole number"}[kind.__name__]
        raise DataError(f"{where}: the field '{name}' must be {expected}, got {str(value)[:80]!r}")
    return value


def numbers(value: Any, count: int, where: object) -> np.ndarray:
    """``(count,)`` float64 from a list of so many finite numbers."""
    array = _array(value)
    if array is None or array.shape != (count,):
        raise DataError(f"{where}: expected {count} finite numbers, got {str(value)[:80]}")
    return array


def number_table(value: Any, columns: int, where: object) -> np.ndarray:
    """``(n, columns)`` float64 from a list of lists of finite numbers."""
    array = np.zeros((0, columns)) if value == [] else _array(value)
    if array is None or array.ndim != 2 or array.shape[1] != columns:
        raise DataError(f"{where}: expected a list of {columns} finite numbers each, got {str(value)[:80]}")
    return array


def _array(value: Any) -> np.ndarray | None:
    """A nested list of numbers as an array; None if it holds anything else, also text that looks like numbers."""
    try:
        array = np.asarray(value) if isinstance(value, list) else np.zeros(1, bool)
    except (ValueError, TypeError, OverflowError):
        return None
    array = array.astype(np.float64) if array.dtype.kind in "iuf" else np.array([np.nan])
    return array if np.isfinite(array).all() else None


class _Numbers:
    """Makes numbers of JSON's digits, and remembers whether some were beyond what a number can be."""

    def __init__(self) -> None:
        self.refused = False

    def whole(self, digits: str) -> float:
        if len(digits) <= _LONGEST_NUMBER:
            return int(digits)
        return self.real(digits) if len(digits) < 400 else self.constant(digits)

    def real(self, digits: str) -> float:
        value = float(digits)
        self.refused |= not math.isfinite(value)
        return value

    def constant(self, name: str) -> float:
        self.refused = True
        return {"NaN": math.nan, "-Infinity": -math.inf}.get(name, math.inf)


def _check_depth(value: Any, where: object) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [part for one in level if isinstance(one, (dict, list)) for part in _parts(one)]
        if not level:
            return
    raise DataError(f"{where}: nested more than {_DEEPEST} levels deep")


def _parts(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value)


def _place_of(value: Any, wanted: Any, place: str = "") -> str:
    """Where in a value the first part that ``wanted`` accepts stands: ``annotations[3].bbox[0]``; empty if nowhere."""
    if wanted(value):
        return f"'{place}'" if place else "the value"
    if isinstance(value, dict):
        if any(wanted(key) for key in value):
            return f"a name in '{place}'" if place else "a name"
        named = ((f"{place}.{key}" if place else key, part) for key, part in value.items())
    elif isinstance(value, list):
        named = ((f"{place}[{index}]", part) for index, part in enumerate(value))
    else:
        return ""
    return next((found for name, part in named if (found := _place_of(part, wanted, name))), "")


def _is_half_character(part: Any) -> bool:
    return isinstance(part, str) and any("\ud800" <= sign <= "\udfff" for sign in part)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _shown(path: Path) -> str:
    """A path that fits into a sentence."""
    text = str(path).replace("\0", "\\0")
    return text if len(text) <= 200 else f"{text[:100]}...{text[-60:]}"
