"""Numeric arrays of MATLAB 5 files, as PF-Pascal and PF-Willow have them.

A parser of our own, for a damaged file must not do more than be refused: scipy's can end the whole process. Every
length is checked against what is there before it is believed. The format is described in MathWorks'
"MAT-File Format": a header of 128 bytes, then elements of a tag (type, number of bytes) and their data.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simsc.errors import DataError
from simsc.reading import read_bytes

FILE_LIMIT = 64 << 20
INFLATED_LIMIT = 256 << 20
"""Bytes that the compressed elements of one file may unpack to."""

_HEADER = 128
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED = 1, 5, 6, 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_NUMERIC_CLASSES = range(6, 16)  # double, single, and the whole numbers of 8 to 64 bits
_COMPLEX = 0x0800
_MOST_DIMENSIONS = 8


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The real numeric arrays of a file by name, each float64 of its own shape; variables of other kinds are left out.

    Raises:
        DataError: the file is damaged, or of another version of MATLAB's format.
    """
    content = read_bytes(path, FILE_LIMIT)
    try:
        return dict(_arrays(content))
    except _Damaged as error:
        raise DataError(f"{path}: not a readable MATLAB file ({error})") from None


class _Damaged(Exception):
    """What is wrong with a file."""


class _Element(NamedTuple):
    kind: int
    data: memoryview


def _arrays(content: bytes) -> Iterator[tuple[str, np.ndarray]]:
    order = _byte_order(content)
    budget = INFLATED_LIMIT
    for element in _elements(memoryview(content)[_HEADER:], order):
        parts = [element]
        if element.kind == _COMPRESSED:
            inflated = _inflate(element.data, budget)
            budget -= len(inflated)
            parts = list(_elements(memoryview(inflated), order))
        for part in parts:
            if part.kind != _MATRIX:
                raise _Damaged(f"an element of type {part.kind} stands where a variable should")
            found = _array(part.data, order)
            if found is not None:
                yield found


def _byte_order(content: bytes) -> str:
    if content.startswith(b"MATLAB 7.3") or content[:8] == b"\x89HDF\r\n\x1a\n":
        raise _Damaged("it is of version 7.3, which is HDF5; save it with -v7")
    if len(content) < _HEADER:
        raise _Damaged(f"it ends after {len(content)} bytes, inside of its header")
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None or np.frombuffer(content, f"{order}u2", 1, offset=124)[0] != 0x0100:
        raise _Damaged("its header is not that of MATLAB 5 to 7")
    return order


def _elements(data: memoryview, order: str) -> Iterator[_Element]:
    """The elements that follow each other in ``data``."""
    place = 0
    while place < len(data):
        if len(data) - place < 8:
            raise _Damaged("it ends inside of a tag")
        first, second = np.frombuffer(data, f"{order}u4", 2, offset=place).tolist()
        if first >> 16:  # a small element: its length shares the tag's first word, its data is the second
            kind, length, start, end = first & 0xFFFF, first >> 16, place + 4, place + 8
            if length > 4:
                raise _Damaged(f"a small element of {length} bytes")
        else:
            kind, length, start = first, second, place + 8
            end = start + length
            if kind != _COMPRESSED:
                end = start + (length + 7) // 8 * 8
        if start + length > len(data):
            raise _Damaged(f"an element of {length:,} bytes, of which {len(data) - start:,} are there")
        yield _Element(kind, data[start : start + length])
        place = end


def _inflate(data: memoryview, limit: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise _Damaged(f"a compressed variable cannot be unpacked: {error}") from None
    if len(inflated) > limit:
        raise _Damaged(f"it unpacks to more than {INFLATED_LIMIT:,} bytes")
    if not stream.eof:
        raise _Damaged("a compressed variable is cut off")
    return inflated


def _array(data: memoryview, order: str) -> tuple[str, np.ndarray] | None:
    """Name and values of a variable, or None where it is not a real numeric array."""
    parts = _elements(data, order)
    flags = _numbers(_next(parts, "flags"), order, _UINT32)
    if len(flags) != 2:
        raise _Damaged("the flags of a variable are not two numbers")
    if int(flags[0]) & 0xFF not in _NUMERIC_CLASSES or int(flags[0]) & _COMPLEX:
        return None
    shape = _numbers(_next(parts, "dimensions"), order, _INT32).tolist()
    if not 2 <= len(shape) <= _MOST_DIMENSIONS or min(shape) < 0:
        raise _Damaged(f"a variable has the dimensions {shape}")
    name = _next(parts, "name")
    if name.kind != _INT8:
        raise _Damaged("the name of a variable is not a text")
    values = _numbers(_next(parts, "values"), order)
    if math.prod(shape) != len(values):
        raise _Damaged(f"a variable has the dimensions {shape} but {len(values):,} values")
    return bytes(name.data).decode("latin-1"), values.astype(np.float64).reshape(shape, order="F")


def _next(parts: Iterator[_Element], what: str) -> _Element:
    try:
        return next(parts)
    except StopIteration:
        raise _Damaged(f"a variable has no {what}") from None


def _numbers(element: _Element, order: str, kind: int | None = None) -> np.ndarray:
    """The numbers of an element, which must be of type ``kind`` where that is given."""
    form = _TYPES.get(element.kind)
    if form is None or kind not in (None, element.kind):
        raise _Damaged(f"numbers are of type {element.kind}" + (f", expected {kind}" if kind else ""))
    if len(element.data) % np.dtype(form).itemsize:
        raise _Damaged(f"{len(element.data)} bytes are not a whole number of values")
    return np.frombuffer(element.data, f"{order}{form}")
