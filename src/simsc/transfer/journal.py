"""What is done so far, line by line on disk, so that an interrupted transfer goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from simsc.errors import ConfigError
from simsc.transfer.instances import Moved
from simsc.transfer.writing import Labelled


class Journal:
    """A file with a head line that says what was asked for, and one line per finished image.

    Args:
        path: of the journal.
        settings: everything that decides the results; a journal of other settings is refused.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))
        self.done: dict[str, Labelled] = {}
        self._stream: TextIO | None = None

    def __enter__(self) -> Journal:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = _whole_lines(self.path)
        if lines:
            self._read(lines)
        # Writing what was read drops a line that was cut off when the process was stopped.
        self._stream = self.path.open("w", encoding="utf-8")
        self._write(self.settings)
        for item in self.done.values():
            self._write(_to_dict(item))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream:
            self._stream.close()

    def add(self, item: Labelled) -> None:
        """Note an image as done."""
        self.done[item.image] = item
        self._write(_to_dict(item))

    def _write(self, value: dict[str, Any]) -> None:
        assert self._stream is not None
        self._stream.write(json.dumps(value, ensure_ascii=False) + "\n")
        self._stream.flush()

    def _read(self, lines: list[dict[str, Any]]) -> None:
        if lines[0] != self.settings:
            changed = [key for key in self.settings if lines[0].get(key) != self.settings[key]]
            raise ConfigError(
                f"{self.path}: belongs to a transfer with other settings ({', '.join(changed) or 'unknown'}); "
                "remove it, or choose another --out"
            )
        for line in lines[1:]:
            self.done[line["image"]] = _from_dict(line)


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _to_dict(item: Labelled) -> dict[str, Any]:
    return {"image": item.image, "size": list(item.size), "found": [moved.to_dict() for moved in item.found]}


def _from_dict(value: dict[str, Any]) -> Labelled:
    height, width = value["size"]
    return Labelled(value["image"], (height, width), [Moved.from_dict(item) for item in value["found"]])
