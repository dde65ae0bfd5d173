"""Several sources in one training run: how they are written, opened, and kept clear of others' test photographs.

A source is written ``name[/split][:place][@weight]``, several with commas between them:
``pfpascal/train-all@2,spair,coco:birds/train.json@0.5``. With weight w, an epoch shows every image of it w times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from simsc.data.catalog import DATASETS, Dataset, Threshold
from simsc.data.locate import find_root
from simsc.data.pairing import by_category, draw_pairs
from simsc.data.photographs import Photographs
from simsc.data.records import Annotated, ImageRef, Pair
from simsc.errors import ConfigError, DataError, unknown_name

HELD_OUT_SHARE = 0.1
"""Part of a source without a validation split that is held out for validation."""
Kind = TypeVar("Kind", Pair, Annotated)
_USUAL_VAL = "val"


@dataclass(frozen=True)
class SourceSpec:
    """A source as it was written; ``split`` and ``place`` are empty where nothing was said."""

    name: str
    split: str = ""
    place: str = ""
    weight: float = 1.0

    @property
    def title(self) -> str:
        """Its name, with its place where it has one."""
        return f"{self.name}:{self.place}" if self.place else self.name


def parse_sources(text: str) -> tuple[SourceSpec, ...]:
    """The sources that a text names.

    >>> parse_sources("pfpascal/train-all@2,coco:birds/train.json")[0]
    SourceSpec(name='pfpascal', split='train-all', place='', weight=2.0)
    >>> parse_sources("pfpascal,coco:birds/train.json@0.5")[1]
    SourceSpec(name='coco', split='', place='birds/train.json', weight=0.5)
    """
    specs = tuple(_parse(part.strip()) for part in text.split(","))
    titles = [spec.title for spec in specs]
    if twice := [title for title in titles if titles.count(title) > 1]:
        raise ConfigError(f"data = {text}: {twice[0]} is named twice; give it a weight instead, as in {twice[0]}@2")
    return specs


def parse_hold_out(text: str) -> tuple[tuple[SourceSpec, bool], ...]:
    """Data sets to hold out, and whether each is held out of its own training split too.

    >>> [(spec.name, strict) for spec, strict in parse_hold_out("pfpascal,spair!")]
    [('pfpascal', False), ('spair', True)]
    """
    if not text:
        return ()
    parts = [part.strip() for part in text.split(",")]
    specs = parse_sources(",".join(part.removesuffix("!") for part in parts))
    return tuple((spec, part.endswith("!")) for spec, part in zip(specs, parts, strict=True))


def _parse(text: str) -> SourceSpec:
    rest, mark, number = text.rpartition("@")
    if not mark:
        rest, number = text, "1"
    try:
        weight = float(number)
    except ValueError:
        raise ConfigError(f"data = {text}: the weight '{number}' after @ is not a number") from None
    if not 0 < weight <= 1000:
        raise ConfigError(f"data = {text}: the weight must be above 0 and at most 1000")
    head, _, place = rest.partition(":")
    name, _, split = head.partition("/")
    if name not in DATASETS:
        raise ConfigError(unknown_name("data set", name, DATASETS))
    return SourceSpec(name, split, place, weight)


@dataclass(frozen=True)
class Material:
    """What one source gives to a run.

    Attributes:
        title: names it in logs.
        weight: how often an epoch shows each of its images (or listed pairs).
        threshold: what PCK's radius is a fraction of, on its validation pairs.
        objects: its annotated objects; empty where its listed pairs are trained on.
        pairs: its listed pairs; empty where pairs are drawn.
        anchors: listed pairs that groups are built around.
        apart: pairs of image keys that are never formed.
        validation: the pairs it is validated on.
    """

    title: str
    weight: float
    threshold: Threshold
    objects: list[Annotated] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    anchors: list[Pair] = field(default_factory=list)
    apart: frozenset[frozenset[str]] = frozenset()
    validation: list[Pair] = field(default_factory=list)


class Opener:
    """Opens sources.

    Args:
        root: where a source without a place of its own is looked for.
        train_split: read of a source that names no split.
        val_split: validated on.
        anchor_split: split whose listed pairs groups are built around, with its source's name before it where there
            are several (``pfpascal/train``), or nothing.
        hold_out: data sets, written as sources, of whose validation and test splits no photograph is trained on, but
            for those in the same data set's own training split, which stays as it was published unless the data set
            is written with ``!`` (SPair-71k itself shows six test photographs in training, for other objects).
        seed: decides what is held out of a source without a validation split.
    """

    def __init__(
        self,
        root: Path | str | None = None,
        train_split: str = "train",
        val_split: str = _USUAL_VAL,
        anchor_split: str = "",
        hold_out: str = "",
        seed: int = 0,
    ) -> None:
        self.root, self.train_split, self.val_split, self.anchor_split = root, train_split, val_split, anchor_split
        self.held = parse_hold_out(hold_out)
        self.seed = seed
        self.notes: list[str] = []
        self._evaluated: dict[str, list[ImageRef]] = {}

    def open(self, specs: Sequence[SourceSpec], listed: bool) -> list[Material]:
        """The material of sources: their listed pairs, or their objects. Keys of several sources never collide."""
        found = [self._material(spec, specs, listed) for spec in specs]
        return found if len(found) == 1 else [_with_prefix(one) for one in found]

    def _material(self, spec: SourceSpec, specs: Sequence[SourceSpec], listed: bool) -> Material:
        dataset = DATASETS[spec.name]
        files = _Files.of(dataset, spec.place or self.root, spec.split or self.train_split)
        photographs = self._held_photographs(spec, specs)
        if listed:
            pairs = _left(photographs.without_pairs(files.pairs()), spec)
            pairs, validation = self._validated(spec, files, pairs, _hold_out_pairs)
            return Material(spec.title, spec.weight, dataset.info.threshold, pairs=pairs, validation=validation)
        objects = _left(photographs.without(files.objects()), spec)
        objects, validation = self._validated(spec, files, objects, _hold_out_objects)
        source, _, split = self.anchor_split.rpartition("/")
        anchors = replace(files, split=split).pairs() if split and source in ("", spec.name) else []
        return Material(
            spec.title,
            spec.weight,
            dataset.info.threshold,
            objects=objects,
            anchors=photographs.without_pairs(anchors),
            apart=files.apart(),
            validation=validation,
        )

    def _validated(
        self,
        spec: SourceSpec,
        files: _Files,
        records: list[Kind],
        divide: Callable[[list[Kind], int], tuple[list[Kind], list[Pair], str]],
    ) -> tuple[list[Kind], list[Pair]]:
        """What is left to train on, and the validation pairs: the source's own, or a part held out of it."""
        if files.has(self.val_split):
            return records, replace(files, split=self.val_split).pairs()
        kept, validation, what = divide(records, self.seed)
        if not kept or not validation:
            raise DataError(
                f"{spec.title} has no validation split and too few {what} to hold some out; "
                "give a folder with train and val files"
            )
        self.notes.append(
            f"{spec.title} has no validation split: {len(records) - len(kept)} of {len(records)} {what}, drawn with "
            f"seed {self.seed}, are held out for validation"
        )
        return kept, validation

    def _held_photographs(self, spec: SourceSpec, specs: Sequence[SourceSpec]) -> Photographs:
        refs: list[ImageRef] = []
        for held, strict in self.held:
            if held.title == spec.title and not strict:
                continue
            if held.title not in self._evaluated:
                places = [held.place, *(one.place for one in specs if one.name == held.name), self.root, None]
                found = _evaluated_images(DATASETS[held.name], [place for place in places if place != ""])
                self._evaluated[held.title] = found
            refs += self._evaluated[held.title]
        return Photographs(refs)


def evaluated_images(name: str, root: Path | str | None = None) -> list[ImageRef]:
    """All images of a data set's validation and test splits."""
    return _evaluated_images(DATASETS[name], [root])


def _evaluated_images(dataset: Dataset, places: Sequence[Path | str | None]) -> list[ImageRef]:
    """All images of a data set's validation and test splits, from the first place that has it."""
    for number, place in enumerate(places, start=1):
        try:
            root = find_root(dataset.info, place)
            break
        except DataError:
            if number == len(places):
                raise
    if root.is_file():
        return dataset.images(root, "test")
    wanted = [split for split in dataset.info.splits if split.startswith(("val", "test"))]
    return [ref for split in wanted if _Files(dataset, root, split).has(split) for ref in dataset.images(root, split)]


@dataclass(frozen=True)
class _Files:
    """A split of a data set on disk; a single file of the user's own is its only split."""

    dataset: Dataset
    root: Path
    split: str
    alone: bool = False

    @classmethod
    def of(cls, dataset: Dataset, place: Path | str | None, split: str) -> _Files:
        info = dataset.info
        if split not in info.splits:
            raise ConfigError(unknown_name(f"split of {info.name}", split, info.splits))
        root = find_root(info, place)
        if not root.is_file():
            return cls(dataset, root, split)
        if root.stem == split:  # birds/train.json is the training split of birds, which may have others
            return cls(dataset, root.parent, split)
        return cls(dataset, root, "test", alone=True)

    def has(self, split: str) -> bool:
        info = self.dataset.info
        if self.alone:
            return False
        if split not in info.splits:
            if split != _USUAL_VAL:
                raise ConfigError(unknown_name(f"split of {info.name}", split, info.splits))
            return False
        return not info.own or any((self.root / f"{split}{suffix}").is_file() for suffix in (".json", ".csv"))

    def objects(self) -> list[Annotated]:
        return self._some(self.dataset.objects(self.root, self.split), "objects")

    def pairs(self) -> list[Pair]:
        return self._some(self.dataset.pairs(self.root, self.split), "pairs")

    def apart(self) -> frozenset[frozenset[str]]:
        return self.dataset.kept_apart(self.root, self.split)

    def _some(self, records: list[Kind], what: str) -> list[Kind]:
        if not records:
            raise DataError(f"{self.dataset.info.name}: the split '{self.split}' has no {what}")
        return records


def _left(records: list[Kind], spec: SourceSpec) -> list[Kind]:
    if not records:
        raise DataError(f"{spec.title}: nothing is left to train on without the photographs of hold_out")
    return records


def _hold_out_objects(objects: list[Annotated], seed: int) -> tuple[list[Annotated], list[Pair], str]:
    """Objects to train on, and pairs of those in a tenth of each category's images, at least two of one category."""
    held: set[str] = set()
    groups = sorted(by_category(objects).items(), key=lambda item: (-len(item[1]), item[0]))
    for category, members in groups:
        images = sorted({one.image.key for one in members})
        count = round(HELD_OUT_SHARE * len(images))
        count = max(count, 2) if count or not held else 0
        if len(images) >= count + 2:
            held.update(random.Random(f"{seed}/{category}/validation").sample(images, count))
    kept = [one for one in objects if one.image.key not in held]
    return kept, draw_pairs([one for one in objects if one.image.key in held], 1000), "objects"


def _hold_out_pairs(pairs: list[Pair], seed: int) -> tuple[list[Pair], list[Pair], str]:
    """Pairs to train on, and a tenth of them, at least two, that train holds in neither order."""
    ends = {frozenset((pair.source.key, pair.target.key)): None for pair in pairs}
    count = max(round(HELD_OUT_SHARE * len(ends)), 2)
    chosen = set(random.Random(f"{seed}/validation").sample(list(ends), count)) if len(ends) > count else set()
    held = [frozenset((pair.source.key, pair.target.key)) in chosen for pair in pairs]
    kept = [pair for pair, out in zip(pairs, held, strict=True) if not out]
    return kept, [pair for pair, out in zip(pairs, held, strict=True) if out], "pairs"


def _with_prefix(material: Material) -> Material:
    """The same material with its title before every image key."""

    def renamed(image: ImageRef) -> ImageRef:
        return replace(image, key=f"{material.title}|{image.key}")

    def of_pairs(pairs: list[Pair]) -> list[Pair]:
        return [replace(pair, source=renamed(pair.source), target=renamed(pair.target)) for pair in pairs]

    return replace(
        material,
        objects=[replace(one, image=renamed(one.image)) for one in material.objects],
        pairs=of_pairs(material.pairs),
        anchors=of_pairs(material.anchors),
        validation=of_pairs(material.validation),
        apart=frozenset(frozenset(f"{material.title}|{key}" for key in keys) for keys in material.apart),
    )
