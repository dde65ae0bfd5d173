"""Labels of one image carried over to a folder of images: resumable, and no bad image stops the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import numpy as np
from PIL import Image

from simsc.errors import ConfigError, DataError, SimscError, unknown_name
from simsc.files import sha256, write_json, write_text
from simsc.images import FORMATS as IMAGE_FORMATS
from simsc.images import read_image
from simsc.matcher import Matcher
from simsc.transfer.formats import Labelled, read_instances, to_coco, to_labelme
from simsc.transfer.instances import Moved
from simsc.transfer.move import Mover

FORMATS = ("coco", "labelme")
Progress = Callable[[int, int], None]


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
        # Writing what was read drops a line that was cut off when the process was stopped; as a whole, for a process
        # that is stopped while it writes must not lose what was done before.
        write_text(self.path, "".join(_line(each) for each in (self.settings, *map(_to_dict, self.done.values()))))
        self._stream = self.path.open("a", encoding="utf-8")
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
        self._stream.write(_line(value))
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


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


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


@dataclass(frozen=True)
class Outcome:
    """What became of a transfer.

    Attributes:
        written: files that hold the labels.
        done: number of images with labels, those of an earlier, interrupted run included.
        resumed: how many of them an earlier run had done.
        failed: reason by image.
    """

    written: list[Path]
    done: int
    resumed: int
    failed: dict[str, str]


def transfer(
    matcher: Matcher,
    source: str | Path,
    annotations: str | Path,
    targets: Iterable[str | Path],
    out: str | Path,
    *,
    form: str = "coco",
    min_confidence: float | None = None,
    max_cycle: float | None = None,
    batch_size: int = 8,
    settings: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Propagate key-points, boxes and masks from one labelled image to many.

    Args:
        matcher: finds the points.
        source, annotations: the labelled image and its labels, see :func:`read_instances`.
        targets: images, or folders that are searched for images.
        out: the COCO file, or the folder of labelme files.
        form: ``coco`` or ``labelme``.
        min_confidence, max_cycle: key-points beyond these limits are reported as unmatched.
        batch_size: images per forward pass.
        settings: what else decides the results, such as the model's name; a journal of others is not continued.
        progress: told how many images of how many are done.
    """
    if form not in FORMATS:
        raise ConfigError(unknown_name("format", form, FORMATS))
    pixels = read_image(source)
    instances = read_instances(annotations, source, (pixels.shape[0], pixels.shape[1]))
    limits = {"min_confidence": min_confidence, "max_cycle": max_cycle}
    mover = Mover(matcher, matcher.encode(pixels), instances, **limits)
    images = find_images(targets)
    facts = {"source": sha256(source), "annotations": sha256(annotations), **limits, **(settings or {})}
    journal_path = Path(f"{out}.journal.jsonl")
    with Journal(journal_path, facts) as journal:
        resumed = len(journal.done.keys() & set(map(str, images)))
        failed = _run(mover, images, journal, batch_size, progress)
    results = [journal.done[str(path)] for path in images if str(path) in journal.done]
    if form == "coco":
        write_json(out, to_coco(instances, results))
        written = [Path(out)]
    else:
        written = [_write_labelme(item, Path(out)) for item in results]
    if not failed:
        journal_path.unlink()
    return Outcome(written, len(results), resumed, failed)


def find_images(targets: Iterable[str | Path]) -> list[Path]:
    """All images among files and folders, each once; folders are searched to any depth, in order of names."""
    endings = {ending for ending, kind in Image.registered_extensions().items() if kind in IMAGE_FORMATS}
    found: dict[Path, None] = {}
    for target in map(Path, targets):
        if target.is_dir():
            inside = (path for path in sorted(target.rglob("*")) if path.suffix.lower() in endings and path.is_file())
            found.update(dict.fromkeys(inside))
        else:
            found[target] = None  # a file that is absent or no image is reported with the failures
    if not found:
        raise DataError(f"no images found in {', '.join(map(str, targets)) or 'nothing'}")
    return list(found)


def _run(
    mover: Mover, images: Sequence[Path], journal: Journal, batch_size: int, progress: Progress | None
) -> dict[str, str]:
    """Move the labels to all images that the journal lacks; returns the reasons of failures."""
    failed: dict[str, str] = {}
    open_images = [path for path in images if str(path) not in journal.done]
    finished = len(images) - len(open_images)
    for start in range(0, len(open_images), batch_size):
        batch = open_images[start : start + batch_size]
        for item in _label(mover, batch, failed):
            journal.add(item)
        finished += len(batch)
        if progress:
            progress(finished, len(images))
    return failed


def _label(mover: Mover, batch: Sequence[Path], failed: dict[str, str]) -> Iterator[Labelled]:
    loaded: dict[Path, np.ndarray] = {}
    for path in batch:
        try:
            loaded[path] = read_image(path)
        except (SimscError, OSError, MemoryError) as error:
            failed[str(path)] = str(error)
    for path, encoded in zip(loaded, mover.matcher.encode_many(list(loaded.values())), strict=True):
        yield Labelled(str(path), encoded.size, mover.move(encoded))


def _write_labelme(item: Labelled, folder: Path) -> Path:
    """One file per image; its folders become part of the name, so that equal names do not collide."""
    path = Path(item.image)
    parts = [part for part in path.with_suffix(".json").parts if part not in (path.anchor, "..", ".")]
    file = folder / "__".join(parts)
    write_json(file, to_labelme(item))
    return file
