"""What ``make fuzz`` does to a good file: wrong bytes anywhere, and wrong values where the format has its own.

A file whose lengths and checksums are right is read further than one that is broken at random, so each format that
has them is taken apart, damaged inside, and put together again.
"""

from __future__ import annotations

import copy
import io
import json
import random
import re
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

Mutate = Callable[[bytes, random.Random], bytes]

_EXTREMES = (0, 1, 2, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, 1 << 28)
_MARK = "\ue000"
_RAW = ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "-" + "9" * 30, "[" * 3000 + "]" * 3000, '"\\ud800"', "01"]
_JUNK: list[Any] = [
    *(None, True, False, 0, -1, 1, 1.5, 1e9, -1e9, 1e300, 2**31, 2**63),
    *("", "text", "1", "nan", "\0", "../x", "/dev/zero", "x" * 3000),
    *([], [1], [[1]], [[1, 2]], [None], [True, False], {}, {"a": 1}, {"": {}}, [[], []], list(range(500))),
]
_CELLS = ["", "x", "nan", "inf", "-1", "1e9", "1e999", "²", "9" * 5000, ",", '"', "\0", "x" * 200_000, "../../x", "1.0"]


def damage_bytes(content: bytes, chance: random.Random) -> bytes:
    """Cut, moved, repeated and changed bytes."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        place, kind = chance.randrange(len(data) + 1), chance.randrange(8)
        if kind == 0:
            del data[place:]
        elif kind == 1:
            del data[place : place + chance.choice((1, 4, 50))]
        elif kind == 2:
            data[place:place] = data[chance.randrange(len(data) + 1) :][: chance.choice((1, 8, 200))]
        elif kind == 3:
            data[place : place + 4] = chance.choice(_EXTREMES).to_bytes(4, chance.choice(("little", "big")))
        elif data:
            at = chance.randrange(min(len(data), chance.choice((40, 400, len(data)))))
            data[at] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256), data[at] ^ (1 << chance.randrange(8)))
            )
    return bytes(data)


def damage_words(content: bytes, chance: random.Random) -> bytes:
    """Wrong numbers of two, four or eight bytes, at places where formats keep theirs."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        size = chance.choice((2, 4, 4, 8))
        if len(data) < size:
            return bytes(data)
        at = chance.randrange(min(len(data) // size, chance.choice((16, 128, 1 << 20)))) * size
        number = chance.choice((*_EXTREMES, chance.randrange(32), len(data), len(data) - 1, 1 << 40, (1 << 64) - 1))
        data[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, chance.choice(("little", "little", "big")))
    return bytes(data)


def damage_json(content: bytes, chance: random.Random) -> bytes:
    """Values of other kinds, missing and repeated parts, and texts that JSON should not hold."""
    if chance.random() < 0.15:
        return damage_bytes(content, chance)
    value = json.loads(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            break
        part, key = chance.choice(places)
        action = chance.random()
        if action < 0.15:
            del part[key]
        elif action < 0.25 and isinstance(part, list):
            part.insert(key, part[key])
        elif action < 0.35:
            part[key] = _MARK
        elif action < 0.5:
            part[key] = copy.deepcopy(chance.choice(places)[0])
        else:
            part[key] = copy.deepcopy(chance.choice(_JUNK))
    text = json.dumps(value)
    return text.replace(json.dumps(_MARK), chance.choice(_RAW)).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def damage_lines(content: bytes, chance: random.Random) -> bytes:
    """One line of JSON lines, or a cell of a table."""
    if chance.random() < 0.2:
        return damage_bytes(content, chance)
    lines = content.decode().split("\n")
    at = chance.randrange(len(lines))
    if lines[at].startswith("{") and chance.random() < 0.8:
        lines[at] = damage_json(lines[at].encode(), chance).decode("utf-8", "surrogateescape")
        return "\n".join(lines).encode("utf-8", "surrogateescape")
    cells = re.split(r"([,; \t])", lines[at])
    cells[chance.randrange(len(cells))] = chance.choice(_CELLS)
    lines[at] = "".join(cells)
    if chance.random() < 0.2:
        chance.shuffle(lines)
    return "\n".join(lines).encode()


def damage_matlab(content: bytes, chance: random.Random) -> bytes:
    """Wrong tags, lengths, dimensions and flags, also inside of compressed variables."""
    if chance.random() < 0.3:
        return damage_bytes(content, chance)
    head, rest, place, parts = content[:128], content[128:], 0, []
    while place < len(rest):
        kind, length = struct.unpack_from("<II", rest, place)
        body = rest[place + 8 : place + 8 + length]
        parts.append((kind, body))
        place += 8 + length
    at = chance.randrange(len(parts))
    for index, (kind, body) in enumerate(parts):
        inner = zlib.decompress(body) if kind == 15 else body
        if index == at:
            inner = damage_words(inner, chance)
        parts[index] = kind, zlib.compress(inner) if kind == 15 else inner
    return head + b"".join(struct.pack("<II", kind, len(body)) + body for kind, body in parts)


def damage_image(content: bytes, chance: random.Random) -> bytes:
    """A PNG with right checksums around wrong chunks; of other formats, wrong numbers or bytes."""
    if content.startswith(b"\x89PNG") and chance.random() < 0.7:
        return _damage_png(content, chance)
    return damage_words(content, chance) if chance.random() < 0.4 else damage_bytes(content, chance)


def _damage_png(content: bytes, chance: random.Random) -> bytes:
    chunks, place = [], 8
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += length + 12
    at, action = chance.randrange(len(chunks)), chance.randrange(5)
    kind, data = chunks[at]
    if action == 0:
        chunks.insert(chance.randrange(len(chunks)), chunks.pop(at))
    elif action == 1:
        chunks.insert(at, (chance.choice((b"tRNS", b"PLTE", b"iCCP", b"eXIf", b"acTL", b"gAMA", b"zTXt")), data[:9]))
    elif action == 2 and kind == b"IDAT":
        chunks[at] = kind, zlib.compress(damage_bytes(zlib.decompress(data), chance))
    else:
        chunks[at] = kind, damage_words(data, chance) if len(data) > 1 else b"\0"
    blocks = (struct.pack(">I", len(data)) + kind + data for kind, data in chunks)
    return content[:8] + b"".join(
        block + struct.pack(">I", zlib.crc32(kind + data)) for block, (kind, data) in zip(blocks, chunks, strict=True)
    )


_NAMES = (
    *("../x", "/x", "set/../../x", "C:/x", "..\\x", "\\x", "set/./x", "a//b", " ", ".", "..", "n" * 300, "set/a.txt"),
    *("set", "set/a.txt/b", "\u202egnp.x", "caf\u00e9", "__MACOSX/x", "set/.in-use", "set/" * 200 + "x", "-rf"),
)


def damage_archive(content: bytes, chance: random.Random) -> bytes:
    """An archive with members that no archive should have, or with wrong bytes."""
    if chance.random() < 0.4:
        return damage_bytes(content, chance)
    names = [chance.choice(_NAMES) for _ in range(chance.choice((1, 2, 4)))]
    if content.startswith(b"PK"):
        return _strange_zip(names, chance)
    return _strange_tar(names, chance, "w:gz" if content.startswith(b"\x1f\x8b") else "w")


def _strange_zip(names: list[str], chance: random.Random) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # two members of one name are meant
        for name in names:
            info = zipfile.ZipInfo(name)
            info.external_attr = chance.choice((0, 0o120777, 0o100644, 0o020644, 0o040755)) << 16
            archive.writestr(info, chance.choice((b"", b"/etc/passwd", bytes(1 << 20))))
    content = stream.getvalue()
    if chance.random() < 0.4:  # the directory at the end may say other sizes than the members
        at = content.rindex(b"PK\x01\x02")
        content = content[: at + 4] + damage_words(content[at + 4 :], chance)
    return content


def _strange_tar(names: list[str], chance: random.Random, mode: str) -> bytes:
    stream = io.BytesIO()
    kinds = (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name in names:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = chance.choice((*kinds, tarfile.REGTYPE, tarfile.GNUTYPE_SPARSE)), "/etc/passwd"
            info.size = chance.choice((0, 4, 4, 1 << 33)) if info.isreg() else 0
            info.pax_headers = chance.choice(({}, {"path": "../y"}, {"size": "-5"}, {"GNU.sparse.size": "9" * 30}))
            archive.addfile(info, io.BytesIO(b"data") if info.size == 4 else None)
    return stream.getvalue()


def damage_checkpoint(content: bytes, chance: random.Random) -> bytes:
    """A model file with a right length around a wrong header, description or number; or wrong bytes."""
    if chance.random() < 0.25:
        return damage_bytes(content, chance)
    return _damage_torch(content, chance) if content.startswith(b"PK") else _damage_safetensors(content, chance)


def _damage_safetensors(content: bytes, chance: random.Random) -> bytes:
    length = int.from_bytes(content[:8], "little")
    header, body = content[8 : 8 + length], content[8 + length :]
    said = json.loads(header).get("__metadata__", {})
    action = chance.random()
    if action < 0.3:
        header = damage_json(header, chance)
    elif action < 0.8 and said:
        name = chance.choice(sorted(said))
        inside = said[name].startswith(("{", "["))
        said[name] = (damage_json if inside else damage_bytes)(said[name].encode(), chance).decode("utf-8", "replace")
        header = json.dumps({**json.loads(header), "__metadata__": said}).encode()
    else:  # numbers that are none: NaN, infinity
        at = 4 * chance.randrange(max(len(body) // 4, 1))
        body = body[:at] + chance.choice((b"\0\0\xc0\x7f", b"\0\0\x80\xff", b"\xff" * 4)) + body[at + 4 :]
    return len(header).to_bytes(8, "little") + header + body


def _damage_torch(content: bytes, chance: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = chance.choice(sorted(members))
    members[name] = chance.choice((damage_bytes, damage_words))(members[name], chance)
    if chance.random() < 0.1:
        del members[name]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for each, data in members.items():
            archive.writestr(each, data)
    return stream.getvalue()


def damage_request(content: bytes, chance: random.Random) -> bytes:
    """Questions in JSON, an image, or a form."""
    if content.startswith(b"["):
        return damage_json(content, chance)
    return damage_image(content, chance) if content.startswith(b"\x89PNG") else damage_bytes(content, chance)
