"""MATLAB files: the same arrays that scipy reads, and whatever is done to a file, an array or a sentence."""

from __future__ import annotations

import contextlib
import io
import random
import zlib
from pathlib import Path

import numpy as np
import pytest

from simsc.data.readers.matlab import read_arrays
from simsc.errors import DataError

scipy_io = pytest.importorskip("scipy.io")
ARRAYS = {
    "kps": np.array([[1.5, np.nan], [3, 4], [5, 6]]),
    "small": np.array([[7]], np.uint8),
    "wide": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
    "single": np.array([[1.25, -2]], np.float32),
    "empty": np.zeros((0, 2)),
}


def mat(compressed: bool, **more: object) -> bytes:
    stream = io.BytesIO()
    scipy_io.savemat(stream, {**ARRAYS, **more}, do_compression=compressed)
    return stream.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_are_those_of_scipy(tmp_path: Path, compressed: bool) -> None:
    others = {"text": "cat", "cell": np.array([1, "a"], object), "struct": {"a": 1}, "complex": np.array([[1j]])}
    (tmp_path / "a.mat").write_bytes(mat(compressed, **others))
    found = read_arrays(tmp_path / "a.mat")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array.astype(np.float64))
        assert found[name].shape == array.shape


def test_other_byte_order(tmp_path: Path) -> None:
    """A file as a big-endian machine wrote it, put together by hand."""

    def element(kind: int, data: bytes) -> bytes:
        return kind.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + b"\0" * (-len(data) % 8)

    numbers = np.array([[1.0, 2.0], [3.0, 4.0]])
    parts = element(6, np.array([6, 0], ">u4").tobytes()) + element(5, np.array([2, 2], ">i4").tobytes())
    parts += element(1, b"kps") + element(9, numbers.astype(">f8").tobytes(order="F"))
    header = b"MATLAB 5.0".ljust(124) + b"\x01\x00MI"
    (tmp_path / "a.mat").write_bytes(header + element(14, parts))
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.mat")["kps"], numbers)


@pytest.mark.parametrize("compressed", [False, True])
def test_damage_is_a_sentence(tmp_path: Path, compressed: bool) -> None:
    content, path, damage = mat(compressed), tmp_path / "a.mat", random.Random(5)
    for _ in range(1500):
        broken = bytearray(content)
        for _ in range(damage.choice((1, 1, 4, 30))):
            broken[damage.randrange(len(broken))] = damage.choice((0, 1, 0x7F, 0x80, 0xFF, damage.randrange(256)))
        if damage.random() < 0.3:
            del broken[damage.randrange(len(broken)) :]
        path.write_bytes(broken)
        with contextlib.suppress(DataError):
            assert all(array.dtype == np.float64 for array in read_arrays(path).values())


def test_bomb_is_refused(tmp_path: Path) -> None:
    bomb = zlib.compress(bytes(300 << 20), 1)
    header = mat(False)[:128]
    (tmp_path / "a.mat").write_bytes(header + (15).to_bytes(4, "little") + len(bomb).to_bytes(4, "little") + bomb)
    with pytest.raises(DataError, match="unpacks to more than"):
        read_arrays(tmp_path / "a.mat")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "ends after 0 bytes"),
        (b"\x89HDF\r\n\x1a\n" + bytes(200), "save it with -v7"),
        (b"MATLAB 7.3 MAT-file".ljust(200), "save it with -v7"),
        (bytes(200), "header is not that of MATLAB 5"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_arrays(tmp_path / "a.mat")
