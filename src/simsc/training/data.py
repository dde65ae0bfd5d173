"""What a run trains on and is validated on: its sources opened, and the way their images are paired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from simsc.data.catalog import DATASETS, Threshold
from simsc.data.mixing import Material, Opener, SourceSpec, parse_sources
from simsc.data.pairing import draw_pairs
from simsc.data.records import ImageRef, Pair, unique_images
from simsc.data.sources import data_fingerprint
from simsc.errors import ConfigError
from simsc.training.config import Config
from simsc.training.sampler import DrawnPairs, ListedPairs, Pairing

Item = TypeVar("Item")


@dataclass(frozen=True)
class Validation:
    """The validation pairs of one source, and what PCK's radius is a fraction of on them."""

    title: str
    pairs: list[Pair]
    threshold: Threshold


@dataclass(frozen=True)
class RunData:
    """The data of a run; ``notes`` are sentences that the user should read."""

    pairing: Pairing
    validations: tuple[Validation, ...]
    notes: tuple[str, ...] = ()

    def images(self) -> list[ImageRef]:
        """Every image once."""
        images = [*self.pairing.images(), *self.validation_images()]
        return list({ref.key: ref for ref in images}.values())

    def validation_images(self) -> list[ImageRef]:
        """Every image of the validation pairs."""
        return unique_images([pair for one in self.validations for pair in one.pairs])

    def facts(self) -> dict[str, object]:
        """What was trained and validated on, for the record."""
        val = {
            one.title: {"pairs": len(one.pairs), "fingerprint": data_fingerprint(one.pairs)} for one in self.validations
        }
        return {"train": self.pairing.facts(), "val": val if len(val) > 1 else next(iter(val.values()))}


def open_data(config: Config, root: str | Path | None = None) -> RunData:
    """Open the sources that a configuration names, and pair their images as it says."""
    specs = parse_sources(config.data)
    pairing = chosen_pairing(config, specs)
    for name in ("teacher", "flip_alone"):
        if getattr(config, name) and pairing != "drawn":
            raise ConfigError(
                f"{name} = {getattr(config, name)} needs drawn pairs: set pairing = drawn or a group above 2"
            )
    opener = Opener(root, config.train_split, config.val_split, config.anchor_split, config.hold_out, config.seed)
    sources = opener.open(specs, listed=pairing == "listed")
    validations = tuple(Validation(one.title, one.validation, one.threshold) for one in sources)
    return RunData(_paired(pairing, sources, config), validations, tuple(opener.notes))


def chosen_pairing(config: Config, specs: Sequence[SourceSpec]) -> str:
    """``listed``, ``all`` or ``drawn``: what ``auto`` means for some sources, and refusals of what cannot be."""
    anchored, _, _ = config.anchor_split.rpartition("/")
    if config.anchor_split and (anchored or len(specs) > 1) and anchored not in {spec.name for spec in specs}:
        raise ConfigError(
            f"anchor_split = {config.anchor_split} must name one of the sources of data = {config.data}, "
            f"as in {specs[0].name}/train"
        )
    unlisted = [spec.name for spec in specs if not DATASETS[spec.name].listed]
    if config.pairing == "listed" and unlisted:
        raise ConfigError(f"pairing = listed: {unlisted[0]} has no list of pairs; allowed: auto, all, drawn")
    if config.pairing != "auto":
        return config.pairing
    return "listed" if config.group == 2 and len(specs) == 1 and not unlisted else "drawn"


def _paired(pairing: str, sources: Sequence[Material], config: Config) -> Pairing:
    if pairing == "drawn":
        limited = [replace(one, anchors=spread_evenly(one.anchors, config.max_pairs)) for one in sources]
        return DrawnPairs(limited, config)
    lists = [one.pairs if pairing == "listed" else _both_directions(one) for one in sources]
    lists = [spread_evenly(pairs, config.max_pairs) for pairs in lists]
    return ListedPairs(lists, config, [one.weight for one in sources])


def _both_directions(source: Material) -> list[Pair]:
    """Every pair of objects of a category, in both orders, but for those kept apart."""
    pairs = [
        pair
        for pair in draw_pairs(source.objects, limit=None)
        if frozenset((pair.source.key, pair.target.key)) not in source.apart
    ]
    return [turned for pair in pairs for turned in (pair, pair.swapped())]


def spread_evenly(items: Sequence[Item], limit: int) -> list[Item]:
    """At most ``limit`` items (0: all) from everywhere in the list, which is often sorted by category.

    >>> spread_evenly("abcdefgh", 3)
    ['a', 'c', 'f']
    """
    count = min(limit or len(items), len(items))
    return [items[index * len(items) // count] for index in range(count)]
