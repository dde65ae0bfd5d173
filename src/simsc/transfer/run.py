"""Labels of a few images carried over to a folder of images: resumable, and no bad image stops the rest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import numpy as np

from simsc.errors import ConfigError, DataError, SimscError
from simsc.files import Lock, outputs, sha256, write_text
from simsc.images import read_image
from simsc.matcher import EncodedImage, Matcher
from simsc.matching.mirror import Mirror
from simsc.processes import spread, usual_workers
from simsc.reading import numbers, parse_json, read_text, typed_field
from simsc.transfer.instances import Labelled, Moved, merge_categories
from simsc.transfer.move import Labels, Mover, completed
from simsc.transfer.reading import Source, find_sources, images_in, read_source
from simsc.transfer.writing import FORMATS

Progress = Callable[[int, int], None]
PAYS = 32
"""Images that a process of its own must have to do: it takes seconds to start."""


class Journal:
    """A file with a head line that says what was asked for, and one line per finished image.

    One process at a time holds it. Lines that cannot be read, for the disk was full or somebody edited the file, are
    left out: their images are done again.

    Args:
        path: of the journal.
        settings: everything that decides the results; a journal of other settings is refused.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))
        self.done: dict[str, Labelled] = {}
        self.skipped: list[str] = []
        self._lock = Lock(path)
        self._stream: TextIO | None = None

    def __enter__(self) -> Journal:
        with ExitStack() as stack:
            stack.enter_context(self._lock)
            if self.path.exists():
                self._read()
            # As a whole: a process that is stopped while it writes must not lose what was done before.
            write_text(self.path, "".join(_line(each) for each in (self.settings, *map(_to_dict, self.done.values()))))
            self._stream = stack.enter_context(self.path.open("a", encoding="utf-8"))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, item: Labelled) -> None:
        """Note an image as done."""
        assert self._stream is not None
        self.done[item.image] = item
        self._stream.write(_line(_to_dict(item)))
        self._stream.flush()

    def _read(self) -> None:
        text = read_text(self.path)
        if not text.strip():
            return  # nothing was noted yet
        head, *lines = text.split("\n")
        self._check_settings(head)
        for number, line in enumerate(lines, start=2):
            where = f"{self.path}, line {number}"
            try:
                item = _from_dict(parse_json(line, where)) if line.strip() else None
            except DataError as error:
                self.skipped.append(str(error) if str(error).startswith(where) else f"{where}: {error}")
                continue
            if item is not None:
                self.done[item.image] = item

    def _check_settings(self, line: str) -> None:
        try:
            stored = parse_json(line, self.path)
        except DataError:
            stored = None
        if stored == self.settings:
            return
        if not isinstance(stored, dict):
            raise ConfigError(
                f"{self.path}: its first line is not that of a journal; remove it, or choose another --out"
            )
        changed = [key for key in self.settings if stored.get(key) != self.settings[key]]
        raise ConfigError(
            f"{self.path}: belongs to a transfer with other settings ({', '.join(changed) or 'unknown'}); "
            "remove it, or choose another --out"
        )


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _to_dict(item: Labelled) -> dict[str, Any]:
    return {"image": item.image, "size": list(item.size), "found": [moved.to_dict() for moved in item.found]}


def _from_dict(value: Any) -> Labelled:
    height, width = numbers(typed_field(value, "size", list, "the line"), 2, "size").tolist()
    found = [Moved.from_dict(item) for item in typed_field(value, "found", list, "the line")]
    return Labelled(typed_field(value, "image", str, "the line"), (int(height), int(width)), found)


@dataclass(frozen=True)
class Outcome:
    """What became of a transfer.

    Attributes:
        written: files that hold the labels.
        images: with their labels, those of an earlier, interrupted run included.
        resumed: how many of them an earlier run had done.
        failed: reason by image.
        skipped: lines of an earlier run's journal that could not be read; their images were done again.
    """

    written: list[Path]
    images: list[Labelled]
    resumed: int
    failed: dict[str, str]
    skipped: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Number of images with labels."""
        return len(self.images)

    def statuses(self) -> Counter[str]:
        """How many key-points are ``sure``, ``unsure``, ``none``."""
        return Counter(
            status for image in self.images for moved in image.found for status in moved.keypoint_status.values()
        )


def transfer(
    matcher: Matcher,
    source: str | Path,
    annotations: str | Path | None,
    targets: Iterable[str | Path],
    out: str | Path,
    *,
    form: str = "coco",
    min_confidence: float | None = None,
    max_cycle: float | None = None,
    mirror: Mirror = "no",
    batch_size: int = 8,
    workers: int | None = 1,
    store: str | Path | None = None,
    settings: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Propagate key-points, boxes and masks from labelled images to many others.

    Of several sources, for each target and key-point the one of the highest confidence wins. A target that is itself
    labelled keeps its labels; what an earlier transfer was unsure of, and nobody has looked at, is found anew.

    Args:
        matcher: finds the points.
        source, annotations: the labelled images and their labels, see :func:`simsc.transfer.reading.find_sources` and
            :func:`simsc.transfer.read_instances`.
        targets: images, or folders that are searched for images.
        out: the file to write, or the folder of labelme files.
        form: one of :data:`simsc.transfer.writing.FORMATS`.
        min_confidence, max_cycle: key-points beyond these limits are reported as unmatched.
        mirror: as in :meth:`simsc.Matcher.match`; the labels say where a mirror image was used, for their left parts
            then lie at right ones.
        batch_size: images that are reported together; on an accelerator, of one forward pass.
        workers: processes; None for as many as pay, at most one a core.
        store: folder of encodings that are used and added to, as of ``simsc bulk`` and ``simsc index`` (needs
            the extra ``bulk``); None to encode every image.
        settings: what else decides the results, such as the model's name; a journal of others is not continued.
        progress: told how many images of how many are done.
    """
    write = FORMATS[form]
    if form == "labelme" and Path(out).is_file():
        raise ConfigError(f"{out} is a file; labelme's form needs the name of a folder")
    sources = [read_source(*each) for each in find_sources(source, annotations)]
    limits = {"min_confidence": min_confidence, "max_cycle": max_cycle}
    encoded = matcher.encode_many([each.image for each in sources], mirror=mirror != "no")
    labels = [Labels(image, each.instances) for image, each in zip(encoded, sources, strict=True)]
    known = {each.image.resolve(): each for each in sources}
    moving = _Moving(matcher, labels, known, limits, mirror, batch_size, None if store is None else str(store))
    images = find_images(targets)
    facts = {"sources": _digests(sources), **limits, "mirror": mirror, **(settings or {})}
    journal_path = Path(f"{out}.journal.jsonl")
    with outputs(journal_path, None if form == "labelme" else out):
        with Journal(journal_path, facts) as journal:
            resumed = len(journal.done.keys() & set(map(str, images)))
            for path in images:
                own = known.get(path.resolve())
                if str(path) not in journal.done and own is not None and not any(t.doubtful for t in own.instances):
                    journal.add(Labelled(str(path), own.size, [Moved.certain(thing) for thing in own.instances]))
            failed = _run(moving, images, journal, workers, progress)
        results = [journal.done[str(path)] for path in images if str(path) in journal.done]
        written = write(merge_categories(each.categories for each in sources), results, Path(out))
        if not failed:
            journal_path.unlink()
    return Outcome(written, results, resumed, failed, journal.skipped)


def _digests(sources: Sequence[Source]) -> list[list[str]]:
    return [[sha256(each.image), sha256(each.annotations)] for each in sources]


def find_images(targets: Iterable[str | Path]) -> list[Path]:
    """All images among files and folders, each once; folders are searched to any depth, in order of names."""
    found: dict[Path, None] = {}
    for target in map(Path, targets):
        # A file that is absent or no image is reported with the failures.
        found.update(dict.fromkeys(images_in(target) if target.is_dir() else [target]))
    if not found:
        raise DataError(f"no images found in {', '.join(map(str, targets)) or 'nothing'}")
    return list(found)


def _run(
    moving: _Moving, images: Sequence[Path], journal: Journal, workers: int | None, progress: Progress | None
) -> dict[str, str]:
    """Move the labels to all images that the journal lacks; returns the reasons of failures."""
    failed: dict[str, str] = {}
    open_images = [path for path in images if str(path) not in journal.done]
    finished, size = len(images) - len(open_images), moving.batch_size
    batches = [open_images[start : start + size] for start in range(0, len(open_images), size)]
    matcher = moving.matcher
    workers = usual_workers(matcher.device, workers, len(batches) if workers else len(open_images) // PAYS)
    for labelled, problems in spread(partial(_Labeller, moving), batches, workers, matcher.model, pinned=False):
        for item in labelled:
            journal.add(item)
        failed.update(problems)
        finished += len(labelled) + len(problems)
        if progress:
            progress(finished, len(images))
    return failed


@dataclass(frozen=True)
class _Moving:
    """What moves labels, wherever that is done; see :func:`transfer`."""

    matcher: Matcher
    labels: Sequence[Labels]
    known: Mapping[Path, Source]
    limits: dict[str, float | None]
    mirror: Mirror
    batch_size: int
    store: str | None


class _Labeller:
    """Finds labels in images."""

    def __init__(self, moving: _Moving, workers: int) -> None:  # noqa: ARG002
        self.known, self.encoded = moving.known, _encoder(moving)
        self.mover = Mover(moving.matcher, moving.labels, **moving.limits, mirror=moving.mirror)

    def __call__(self, paths: Sequence[Path]) -> tuple[list[Labelled], dict[str, str]]:
        """The labels of images, and the reasons of those that cannot be used."""
        encoded, failed = self.encoded(paths)
        return [self._labelled(path, image) for path, image in encoded.items()], failed

    def _labelled(self, path: Path, encoded: EncodedImage) -> Labelled:
        own, found = self.known.get(path.resolve()), self.mover.move(encoded)
        return Labelled(str(path), encoded.size, found if own is None else completed(own.instances, found))


def _encoder(moving: _Moving) -> Callable[[Sequence[Path]], tuple[dict[Path, EncodedImage], dict[str, str]]]:
    """Gives the encodings of images, and the reasons of those that cannot be read: from the store, or fresh ones."""
    matcher = moving.matcher

    def fresh(paths: Sequence[Path]) -> tuple[dict[Path, EncodedImage], dict[str, str]]:
        loaded, failed = dict[Path, np.ndarray](), dict[str, str]()
        for path in paths:
            try:
                loaded[path] = read_image(path)
            except (SimscError, OSError, MemoryError) as error:
                failed[str(path)] = str(error)
        return dict(zip(loaded, matcher.encode_many(list(loaded.values())), strict=True)), failed

    if moving.store is None:
        return fresh
    from simsc.bulk.places import Place
    from simsc.bulk.store import Encodings, Store, encoded_bytes

    alone = matcher.device.type == "cpu" or matcher.view.keep_aspect
    images = Encodings(
        matcher,
        lambda image: image,
        encoded_bytes,
        root=Place.at("."),
        store=Store(Place.at(moving.store), matcher),
        max_bytes=0,  # each is looked at once
        batch=1 if alone else moving.batch_size,
    )

    def stored(paths: Sequence[Path]) -> tuple[dict[Path, EncodedImage], dict[str, str]]:
        failed = images.prepare([str(path) for path in paths])
        return {path: images.get(str(path)) for path in paths if str(path) not in failed}, failed

    return stored
