"""Pairs of the images of one or two folders, by a rule: all of them, the nearest by a descriptor, or a chain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from simsc.bulk.manifest import Rows
from simsc.bulk.places import Place, need, read_bytes
from simsc.errors import ConfigError, DataError
from simsc.reading import parse_json, typed_field

if TYPE_CHECKING:
    from simsc.bulk.store import Encodings
    from simsc.matcher import EncodedImage

RULES = ("all", "nearest", "chain")


class TilesManifest:
    """Every source with every target, tile by tile, so that the pairs of a shard share few images.

    Shard ``k`` is a square of about ``shard_rows`` pairs; its rows are computed when it is read, so that a billion
    pairs take no room. An image is not paired with itself. Row numbers count along the sources.

    >>> tiles = TilesManifest(["a", "b", "c"], ["a", "b", "c"], shard_rows=4)
    >>> tiles.rows, tiles.shards, list(zip(tiles.read(0).source, tiles.read(0).target))
    (6, 4, [('a', 'b'), ('b', 'a')])
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str], shard_rows: int) -> None:
        self.sources, self.targets = list(sources), list(targets)
        self.side = max(int(shard_rows**0.5), 1)
        self.columns = -(-len(self.targets) // self.side)
        self.shards = -(-len(self.sources) // self.side) * self.columns
        self.rows = len(self.sources) * len(self.targets) - len(set(self.sources) & set(self.targets))

    def read(self, shard: int) -> Rows:
        """The pairs of one tile."""
        top, left = shard // self.columns * self.side, shard % self.columns * self.side
        rows = Rows()
        for down, source in enumerate(self.sources[top : top + self.side], start=top):
            for across, target in enumerate(self.targets[left : left + self.side], start=left):
                if source != target:
                    rows.add(down * len(self.targets) + across, {"source": source, "target": target})
        return rows


def find_images(folder: Place) -> list[str]:
    """Paths of all images in a folder, to any depth, in order of their names."""
    endings = {ending for ending, kind in Image.registered_extensions().items() if kind in Image.OPEN}
    found = [str(place) for place in folder.files(recursive=True) if _ending(place.name) in endings]
    if not found:
        raise DataError(f"{folder}: no images found")
    return found


def chain(images: Sequence[str]) -> Iterator[dict[str, str]]:
    """Each image with the next one.

    >>> [(row["source"], row["target"]) for row in chain(["a", "b", "c"])]
    [('a', 'b'), ('b', 'c')]
    """
    for source, target in pairwise(images):
        yield {"source": source, "target": target}


def nearest(
    images: Encodings[EncodedImage], sources: Sequence[str], targets: Sequence[str], count: int
) -> Iterator[dict[str, str]]:
    """Each source with the ``count`` targets whose descriptors are most like its own.

    Images that cannot be read are left out here: they have no neighbours.
    """
    faiss = need("faiss")
    left, right = _describe(images, sources), _describe(images, targets)
    if not right:
        raise DataError("none of the target images can be read")
    names = list(right)
    index = faiss.IndexFlatIP(len(next(iter(right.values()))))
    index.add(np.stack(list(right.values())))
    for source, descriptor in left.items():
        _, order = index.search(descriptor[None], min(count + 1, len(names)))
        found = [names[place] for place in order[0] if names[place] != source][:count]
        yield from ({"source": source, "target": target} for target in found)


def descriptor(image: EncodedImage) -> np.ndarray:
    """Global descriptor ``(C,)`` of unit length: the mean of the image's unit features."""
    import torch.nn.functional as F

    cells = F.normalize(image.features.maps[0].flatten(1), dim=0)
    unit: np.ndarray = F.normalize(cells.mean(dim=1), dim=0).cpu().numpy()
    return unit


def check_rule(rule: str, count: int, two_folders: bool) -> None:
    """Refuse what no rule means."""
    from simsc.errors import unknown_name

    if rule not in RULES:
        raise ConfigError(unknown_name("rule", rule, RULES))
    if rule == "nearest" and count < 1:
        raise ConfigError(f"nearest = {count} is not allowed; allowed: 1 or more")
    if rule == "chain" and two_folders:
        raise ConfigError("rule 'chain' follows the images of one folder; give only one")


def write_lists(place: Place, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Keep the images that a job began with: a folder may change while it runs."""
    same = list(sources) == list(targets)
    place.write(json.dumps({"sources": list(sources), "targets": None if same else list(targets)}).encode())


def read_lists(place: Place) -> tuple[list[str], list[str]]:
    """What :func:`write_lists` kept."""
    lists = parse_json(read_bytes(place).decode("utf-8", "replace"), place)
    sources = typed_field(lists, "sources", list, place)
    targets = typed_field(lists, "targets", list, place) if lists.get("targets") is not None else sources
    if not all(isinstance(path, str) for path in (*sources, *targets)):
        raise DataError(f"{place}: not a list of images")
    return sources, targets


def _describe(images: Encodings[EncodedImage], paths: Sequence[str]) -> dict[str, np.ndarray]:
    from simsc.errors import SimscError

    result = {}
    for path in paths:
        try:
            result[path] = descriptor(images.get(path))
        except (SimscError, OSError, MemoryError):
            continue
    return result


def _ending(name: str) -> str:
    return f".{name.rpartition('.')[2].lower()}"
