"""The order of training by seed and epoch: listed pairs, or pairs within groups of images drawn anew each epoch.

PF-Pascal lists every pair in both orders. Drawn side by side they need two image forwards instead of four, and
the batch still holds the same number of pairs. Groups of more images go further: four images that are all matched with
each other are twelve pairs. Groups are drawn within a source and category, so nothing grows with the number of pairs
that could be formed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import NamedTuple, Protocol

import numpy as np

from simsc.coordinates import Size
from simsc.data.mixing import Material
from simsc.data.records import Annotated, ImageRef, Pair, pair_of, unique_images
from simsc.data.sources import data_fingerprint
from simsc.errors import DataError
from simsc.training.augment import Augmenter
from simsc.training.config import Config
from simsc.training.teacher import GROUPS, WITHIN, Teacher


class Item(NamedTuple):
    """A pair of a batch.

    Attributes:
        source, target: numbers of two objects, or twice that of a listed pair.
        group: number of the group within the epoch.
        showing: how often the epoch has shown these images before.
    """

    source: int
    target: int
    group: int = 0
    showing: int = 0


class Pairing(Protocol):
    """Which pairs an epoch shows, in what order, and how they look in it."""

    def batches(self, epoch: int) -> list[list[Item]]:
        """The batches of an epoch. Same seed and epoch, same batches."""

    def pairs(self, items: Sequence[Item], epoch: int) -> list[Pair]:
        """Pairs as they look in an epoch."""

    def taught(self, items: Sequence[Item], epoch: int, teacher: Teacher) -> list[Pair]:
        """What a teacher says of some of the pairs, as they look in an epoch."""

    def images(self) -> list[ImageRef]:
        """Every image, as it is on disk."""

    def all_images(self) -> list[ImageRef]:
        """Every image, or its copy, that any epoch can ask for."""

    def facts(self) -> dict[str, object]:
        """What it holds, for the record."""


class ListedPairs:
    """Lists of pairs: an epoch shows every pair once, or as often as its source's weight says."""

    def __init__(self, lists: Sequence[Sequence[Pair]], config: Config, weights: Sequence[float] = ()) -> None:
        self.listed = [pair for pairs in lists for pair in pairs]
        self.sizes, self.weights = [len(pairs) for pairs in lists], list(weights) or [1.0] * len(lists)
        self.config = config
        sides = ((ref, points) for pair in self.listed for ref, points in _sides(pair))
        self.augment = Augmenter(sides, config) if config.augments else None

    def batches(self, epoch: int) -> list[list[Item]]:
        """See :class:`Pairing`."""
        generator = np.random.default_rng([self.config.seed, epoch])
        shown = self._shown(generator)
        ends = [(self.listed[index].source.key, self.listed[index].target.key) for index, _ in shown]
        units = both_orders(ends, generator) if self.config.share_images else [[index] for index in range(len(ends))]
        order = [index for unit in generator.permutation(len(units)) for index in units[unit]]
        items = [Item(shown[index][0], shown[index][0], index, shown[index][1]) for index in order]
        size = self.config.batch_size
        return [items[start : start + size] for start in range(0, len(items), size)]

    def pairs(self, items: Sequence[Item], epoch: int) -> list[Pair]:
        """See :class:`Pairing`."""
        return [self._varied(self.listed[item.source], epoch, item.showing) for item in items]

    def taught(self, items: Sequence[Item], epoch: int, teacher: Teacher) -> list[Pair]:  # noqa: ARG002
        """Nothing: a teacher asks for points of annotated objects, and a list's pairs may have none."""
        return []

    def images(self) -> list[ImageRef]:
        """See :class:`Pairing`."""
        return unique_images(self.listed)

    def all_images(self) -> list[ImageRef]:
        """See :class:`Pairing`."""
        return self.images() if self.augment is None else list(self.augment.copies())

    def facts(self) -> dict[str, object]:
        """See :class:`Pairing`."""
        return {"pairs": len(self.listed), "fingerprint": data_fingerprint(self.listed)}

    def _shown(self, generator: np.random.Generator) -> list[tuple[int, int]]:
        """Numbers of pairs with the number of their showing."""
        start, shown = 0, list[tuple[int, int]]()
        for size, weight in zip(self.sizes, self.weights, strict=True):
            for showing, members in showings(range(start, start + size), weight, generator, least=1):
                shown += [(int(index), showing) for index in members]
            start += size
        return shown

    def _varied(self, pair: Pair, epoch: int, showing: int) -> Pair:
        if self.augment is None:
            return pair
        mirrored = self.augment.mirrors(epoch, *sorted((pair.source.key, pair.target.key)))
        source, target = (self.augment(ref, points, epoch, mirrored, showing) for ref, points in _sides(pair))
        return replace(
            pair,
            source=source[0],
            target=target[0],
            source_points=source[1],
            target_points=target[1],
            source_box=None,
            target_box=None,
            source_alone=np.zeros((0, 2)),
        )


@dataclass(frozen=True)
class _Unit:
    """Objects that are all matched with each other."""

    members: tuple[int, ...]
    showing: int = 0


class DrawnPairs:
    """Groups of ``config.group`` objects (a few more at times) of a source and category, drawn anew each epoch.

    An epoch shows every image of a source as often as its weight says; of a source with anchors, every anchor.
    """

    def __init__(self, sources: Sequence[Material], config: Config) -> None:
        self.config = config
        self.objects: list[Annotated] = [one for source in sources for one in source.objects]
        self._real = len(self.objects)  # behind them stand those that are mirrored by themselves
        self._alone = self._with_swapped_sides() if config.flip_alone else {}
        self._masks = [_bits(one.present) for one in self.objects]
        self._apart = frozenset[frozenset[str]]().union(*(source.apart for source in sources))
        anchors = [self._numbered(source.anchors) for source in sources]
        self.anchors = [(source.weight, some) for source, some in zip(sources, anchors, strict=True) if some]
        self._kinds: dict[tuple[float, Hashable], list[int]] = defaultdict(list)
        number = 0
        for place, source in enumerate(sources):
            for one in source.objects:
                if not anchors[place]:
                    self._kinds[source.weight, (place, one.category, one.image.flip)].append(number)
                number += 1
        sides = ((one.image, one.points[one.present]) for one in self.objects[: self._real])
        self.augment = Augmenter(sides, config) if config.augments else None
        self._last: tuple[int, list[list[Item]]] | None = None
        if not self.batches(0):
            raise DataError("no two images of a category have a key-point in common: there is nothing to match")

    def batches(self, epoch: int) -> list[list[Item]]:
        """See :class:`Pairing`; a batch ends with the group that reaches ``batch_size`` pairs."""
        if self._last is None or self._last[0] != epoch:
            self._last = epoch, self._draw(epoch)
        return self._last[1]

    def pairs(self, items: Sequence[Item], epoch: int) -> list[Pair]:
        """See :class:`Pairing`; a whole group is mirrored or none of it, or left would become right.

        Images whose points have names may be mirrored by themselves: their left and right exchange names.
        """
        found: dict[tuple[int, int, int], Annotated] = {}
        for item in items:
            for number in (item.source, item.target):
                key = (number, item.group, item.showing)
                if key not in found:
                    found[key] = self._varied(*key, epoch)
        return [
            pair_of(found[item.source, item.group, item.showing], found[item.target, item.group, item.showing])
            for item in items
        ]

    def taught(self, items: Sequence[Item], epoch: int, teacher: Teacher) -> list[Pair]:
        """See :class:`Pairing`; which pairs and points those are depends on seed, epoch and objects alone."""
        lessons = (self._lesson(item, epoch, teacher) for item in items)
        return [pair for pair in lessons if pair is not None]

    def images(self) -> list[ImageRef]:
        """See :class:`Pairing`."""
        return list({one.image.key: one.image for one in self.objects}.values())

    def all_images(self) -> list[ImageRef]:
        """See :class:`Pairing`."""
        return self.images() if self.augment is None else list(self.augment.copies())

    def facts(self) -> dict[str, object]:
        """See :class:`Pairing`."""
        facts = {"objects": self._real, "images": len(self.images())}
        return {**facts, "fingerprint": data_fingerprint(self.objects[: self._real])}

    def _draw(self, epoch: int) -> list[list[Item]]:
        generator = np.random.default_rng([self.config.seed, epoch])
        units = [unit for weight, anchors in self.anchors for unit in self._around(anchors, weight, generator)]
        anchored = len(units)
        units += self._divided(generator)
        if self._alone:
            units = [self._partly_mirrored(unit, generator) for unit in units]
        groups, limit = [self._within(number, unit) for number, unit in enumerate(units)], self.config.max_pairs
        if anchored and limit:  # anchors were limited, not what completes their groups
            groups, limit = [*groups[:anchored], *shuffled(groups[anchored:], limit, generator)], 0
        return packed([items for items in groups if items], self.config.batch_size, limit, generator)

    def _varied(self, number: int, group: int, showing: int, epoch: int) -> Annotated:
        one = self.objects[number]
        if self.augment is None:
            return one
        image, points = self._moved(number, one.points, Item(number, number, group, showing), epoch)
        return replace(one, image=image, points=points, box=None)

    def _with_swapped_sides(self) -> dict[int, int]:
        """Add objects whose sides have exchanged names; numbers of theirs by those of the objects themselves."""
        swapped = {number: one.sides_swapped() for number, one in enumerate(self.objects)}
        found = {number: one for number, one in swapped.items() if one is not None}
        self.objects += found.values()
        return {number: self._real + place for place, number in enumerate(found)}

    def _partly_mirrored(self, unit: _Unit, generator: np.random.Generator) -> _Unit:
        chosen = generator.random(len(unit.members)) < self.config.flip_alone
        members = zip(unit.members, chosen, strict=True)
        return replace(unit, members=tuple(self._alone.get(one, one) if alone else one for one, alone in members))

    def _lesson(self, item: Item, epoch: int, teacher: Teacher) -> Pair | None:
        """What a teacher says of a pair, if it is asked and has something to say."""
        if np.random.default_rng([self.config.seed, epoch, item.group]).random() >= GROUPS:
            return None
        chance = np.random.default_rng([self.config.seed, epoch, item.source, item.target, item.showing])
        if chance.random() >= WITHIN:
            return None
        if (item.source < self._real) != (item.target < self._real):
            return None  # the teacher matches left with left, which is right in one of the two
        ends = self.objects[item.source], self.objects[item.target]
        sides = [
            self._moved(number, points, item, epoch)
            for number, points in zip((item.source, item.target), teacher.lesson(*ends, chance), strict=True)
        ]
        inside = np.logical_and(*(within(points, ref.size) for ref, points in sides))
        if not inside.any():
            return None
        (source, here), (target, there) = sides
        return Pair("lesson", ends[0].category, source, target, here[inside], there[inside])

    def _moved(self, number: int, points: np.ndarray, item: Item, epoch: int) -> tuple[ImageRef, np.ndarray]:
        """The copy of an object's image that an epoch shows in a pair, and points ``(n, 2)`` of the image in it."""
        ref = self.objects[number].image
        if self.augment is None:
            return ref, points
        return self.augment(ref, points, epoch, self._mirrors(number, item.group, epoch), item.showing)

    def _mirrors(self, number: int, group: int, epoch: int) -> bool:
        """Whether an object's image is mirrored: with its group, by itself, or by both and thus not."""
        assert self.augment is not None
        return self.augment.mirrors(epoch, f"group {group}") != (number >= self._real)

    def _divided(self, generator: np.random.Generator) -> list[_Unit]:
        """The objects of each kind in random groups, once for each showing."""
        return [
            _Unit(tuple(chunk.tolist()), showing)
            for (weight, _), members in self._kinds.items()
            for showing, shown in showings(members, weight, generator, least=2)
            for chunk in _chunks(shown, self.config.group, generator)
        ]

    def _around(self, anchors: Sequence[tuple[int, int]], weight: float, generator: np.random.Generator) -> list[_Unit]:
        """Groups of the objects of a source's anchors of one kind, once for each showing."""
        kinds: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        for unit in both_orders(anchors, generator):  # an anchor and its reverse are the same two objects
            anchor = anchors[unit[0]]
            source = self.objects[anchor[0]]
            kinds[source.category, source.image.flip].append(anchor)
        units = []
        for alike in kinds.values():
            for showing, shown in showings(range(len(alike)), weight, generator, least=1):
                for chunk in _chunks(shown, self.config.group // 2, generator):
                    members = dict.fromkeys(end for index in chunk for end in alike[index])
                    units.append(_Unit(tuple(members), showing))
        return units

    def _within(self, number: int, unit: _Unit) -> list[Item]:
        """All ordered pairs within a group that have a common point and are not kept apart."""
        return [
            Item(source, target, number, unit.showing)
            for source, target in permutations(unit.members, 2)
            if self._masks[source] & self._masks[target] and self._allowed(source, target)
        ]

    def _allowed(self, source: int, target: int) -> bool:
        keys = frozenset((self.objects[source].image.key, self.objects[target].image.key))
        return len(keys) == 2 and keys not in self._apart

    def _numbered(self, anchors: Sequence[Pair]) -> list[tuple[int, int]]:
        """Anchors by the numbers of their objects; those of objects that are left out are left out."""
        place = {(one.category, one.image.key): number for number, one in enumerate(self.objects[: self._real])}
        ends = [((pair.category, pair.source.key), (pair.category, pair.target.key)) for pair in anchors]
        return [(place[source], place[target]) for source, target in ends if source in place and target in place]


def image_forwards(pairing: Pairing, epoch: int) -> int:
    """How many image forwards an epoch needs when each image is encoded once per batch."""
    return sum(len(unique_images(pairing.pairs(batch, epoch))) for batch in pairing.batches(epoch))


def showings(
    members: Sequence[int], weight: float, generator: np.random.Generator, least: int
) -> Iterator[tuple[int, Sequence[int]]]:
    """The members once for each whole unit of ``weight``, then a random share of them for the rest.

    A share of 0 < n < ``least`` members becomes 0 or ``least``, with the same mean.
    """
    whole = int(weight)
    for showing in range(whole):
        yield showing, members
    if share := weight - whole:
        count = int(share * len(members) + generator.random())
        if 0 < count < least:
            count = least if generator.random() < count / least else 0
        if count := min(count, len(members)):
            chosen = generator.choice(len(members), count, replace=False)
            yield whole, [members[index] for index in np.sort(chosen)]


def both_orders(ends: Sequence[tuple[Hashable, Hashable]], generator: np.random.Generator) -> list[list[int]]:
    """Units of one pair, or of two that are each other's reverse; which copies meet changes with the epoch."""
    waiting: dict[tuple[Hashable, Hashable], deque[int]] = defaultdict(deque)
    units = []
    for index in generator.permutation(len(ends)).tolist():
        source, target = ends[index]
        if waiting[target, source]:
            units.append([waiting[target, source].popleft(), index])
        else:
            waiting[source, target].append(index)
    units.extend([index] for group in waiting.values() for index in group)
    return units


def packed(groups: list[list[Item]], batch_size: int, limit: int, generator: np.random.Generator) -> list[list[Item]]:
    """Whole groups in random order, in batches of ``batch_size`` pairs or a few more; ``limit`` pairs in all, or 0."""
    batches: list[list[Item]] = []
    for group in shuffled(groups, limit, generator):
        if not batches or len(batches[-1]) >= batch_size:
            batches.append([])
        batches[-1].extend(group)
    return batches


def shuffled(groups: list[list[Item]], limit: int, generator: np.random.Generator) -> Iterator[list[Item]]:
    """Groups in random order until they have ``limit`` pairs; all with 0."""
    total = 0
    for number in generator.permutation(len(groups)):
        if limit and total >= limit:
            return
        yield groups[number]
        total += len(groups[number])


def within(points: np.ndarray, size: Size) -> np.ndarray:
    """Which points ``(n, 2)`` lie in an image of ``size``."""
    limit = np.array([size[1], size[0]]) - 0.5
    return np.asarray(((points >= -0.5) & (points <= limit)).all(axis=1))


def _chunks(items: Sequence[int], size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Items in random order, in parts of ``size`` or a few more."""
    return np.array_split(generator.permutation(np.array(items)), max(len(items) // size, 1))


def _bits(present: np.ndarray) -> int:
    """A mask ``(K,)`` as one number, whose ``&`` with another is quick."""
    return int.from_bytes(np.packbits(present, bitorder="little").tobytes(), "little")


def _sides(pair: Pair) -> tuple[tuple[ImageRef, np.ndarray], tuple[ImageRef, np.ndarray]]:
    return (pair.source, pair.source_points), (pair.target, pair.target_points)
