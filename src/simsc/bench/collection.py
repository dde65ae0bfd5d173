"""One point against a collection of many images: what a query costs, and how many of the best places it finds.

A hundred thousand photographs would take hours to encode and 50 GB to store. So the entries are quarters of the feature
maps of some thousand photographs, each at a place of its own and with some noise, in the store's own format: the coarse
index is as large as that of whole images, which it averages to as many cells, and an exact look reads a quarter.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from simsc.bench.bulk import soft_pictures
from simsc.bench.ratios import Ratio
from simsc.bulk.index import Index, build_index
from simsc.bulk.lookup import make_ready
from simsc.bulk.places import Place
from simsc.bulk.store import Encodings, Store
from simsc.matcher import EncodedImage, Matcher, load
from simsc.processes import one_thread

NOISE = 0.2
"""Of an entry's features, in their standard deviations: no two entries have a cell in common."""

TOP = 10
CANDIDATES = (20, 50, 100, 200, 400)
USUAL = 100
"""Candidates of ``simsc find``."""

_CHILD = """
import json, resource, sys, time
from simsc.bench import collection
name, arguments = json.loads(sys.argv[1])
started = time.process_time()
answer = getattr(collection, name)(**arguments)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps([answer, time.process_time() - started, peak]))
"""


def bench_collection(
    quick: bool = False,
    images: int = 100_000,
    queries: int = 20,
    model: str | None = None,
    photos: str | Path | None = None,
    folder: str | Path | None = None,
) -> list[Ratio]:
    """Points of photographs that are not in the collection, asked for in all of it; in processor time of one thread.

    Args:
        quick: small sizes.
        images: entries of the collection.
        queries: points that are asked for, one a photograph.
        model: None for the packaged one.
        photos: folder of JPEG files; None for pictures of soft colours, with which recall means little.
        folder: keeps what is made, so that another run need not make it again; None for a temporary one.
    """
    options: dict[str, Any] = {"size": 64 if quick else None, "device": "cpu"}
    if quick:
        images, queries = 40, 2
    with TemporaryDirectory() if folder is None else nullcontext(str(folder)) as name, one_thread():
        here = Path(name).absolute()
        matcher = load(model, **options)
        chosen = sorted(map(str, Path(photos or soft_pictures(here / "photos", 12)).rglob("*.jpg")))
        _fill(here, matcher, chosen[queries:], images)
        size, built, memory = _in_process("build", folder=name, model=model, options=options)
        random = np.random.default_rng(2)
        asked = [(photo, _point(matcher, photo, random)) for photo in chosen[:queries]]
        answers, _, peak = _in_process("ask", index=f"{name}/index", asked=asked)
        best, scan = _scan(here, matcher, asked)
    return _ratios(answers, best, scan, images, f"built in {built:.0f} s and {_mb(memory)}, asked in {_mb(peak)}", size)


def build(folder: str, model: str | None, options: dict[str, Any]) -> int:
    """Index the entries, all of which are in the store; the bytes of the coarse index."""
    here = Path(folder)
    build_index(here / "entries", here / "index", model=model, options=options, store=str(here / "store"), workers=1)
    return (here / "index" / "coarse.faiss").stat().st_size


def ask(index: str, asked: Sequence[tuple[str, Sequence[float]]]) -> list[dict[str, Any]]:
    """Of each query: seconds of the coarse search and of the whole, and the images found, by number of candidates."""
    collection = Index(index, device="cpu", max_bytes=0)
    answers = []
    for photo, point in asked:
        image, answer = collection.matcher.encode(photo), dict[str, Any]()
        for candidates in (USUAL, *CANDIDATES):  # the first time is for what later ones reuse
            started = time.process_time()
            collection.near(image, point, candidates)
            between = time.process_time()
            hits = collection.find(image, point, top=TOP, candidates=candidates)
            seconds = between - started, time.process_time() - between
            answer[str(candidates)] = *seconds, [hit.image for hit in hits]
        answers.append(answer)
    return answers


def _fill(here: Path, matcher: Matcher, photos: Sequence[str], images: int) -> None:
    """Entries in the store: each photograph gives the same number of them, give or take one."""
    store = Store(Place.at(here / "store"), matcher)
    encodings = _encodings(matcher, store, lambda image: image)
    for first, photo in enumerate(photos[:images]):
        for number in range(first, images, len(photos)):
            path = here / "entries" / f"{number // 1000:04}" / f"{number:07}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}\n")  # never decoded: what stands for it is in the store
            if (key := encodings.key(str(path))) not in store:
                random = torch.Generator().manual_seed(number)
                store.put(key, _quarter(encodings.get(photo), matcher, random))


def _encodings(matcher: Matcher, store: Store, ready: Any) -> Encodings[Any]:
    return Encodings(matcher, ready, lambda _: 1, root=Place.at("."), store=store, max_bytes=1)  # one at a time


def _quarter(image: EncodedImage, matcher: Matcher, random: torch.Generator) -> EncodedImage:
    """As if a part of the image, half as high and wide, had been encoded by itself."""
    maps = image.features.maps
    height, width = (max(side // 2, 1) for side in image.features.map_size)
    top, left = (
        int(torch.randint(side - part + 1, (), generator=random))
        for side, part in zip(image.features.map_size, (height, width), strict=True)
    )
    part = maps[..., top : top + height, left : left + width]
    part = part + NOISE * maps.std() * torch.randn(part.shape, generator=random)
    frame = matcher.view.frame((image.size[0] // 2, image.size[1] // 2))
    return EncodedImage(replace(image.features, maps=part), frame)


def _point(matcher: Matcher, photo: str, random: np.random.Generator) -> list[float]:
    """A point of the middle of a photograph, where something is."""
    height, width = matcher.encode(photo).size
    return [float(each) for each in (random.uniform(0.3, 0.7, 2) * (width, height)).round(1)]


@torch.inference_mode()
def _scan(here: Path, matcher: Matcher, asked: Sequence[tuple[str, Sequence[float]]]) -> tuple[list[set[str]], float]:
    """The best images for each query among all of them, and processor seconds of looking at one image for one query."""
    ready = make_ready(matcher)
    sources = [ready(matcher.encode(photo)) for photo, _ in asked]
    points = [np.array([point]) for _, point in asked]
    features = torch.cat([each.ask(point).features for each, point in zip(sources, points, strict=True)])
    entries = _encodings(matcher, Store(Place.at(here / "store"), matcher), ready)
    paths = sorted(map(str, (here / "entries").rglob("*.jpg")))
    alike, seconds = [], 0.0
    for path in paths:
        started = time.process_time()
        target = entries.get(path)
        (features[:1] @ target.rows.t()).max()
        seconds += time.process_time() - started
        alike.append((features @ target.rows.t()).amax(dim=1) * target.temperature)
    _, best = torch.stack(alike).topk(min(TOP, len(paths)), dim=0)
    return [{paths[index] for index in column.tolist()} for column in best.t()], seconds / len(paths)


def _ratios(
    answers: Sequence[dict[str, Any]], best: Sequence[set[str]], scan: float, images: int, memory: str, size: int
) -> list[Ratio]:
    coarse, whole, recall = {}, {}, {}
    for number in map(str, CANDIDATES):
        coarse[number], whole[number] = (median(answer[number][part] for answer in answers) for part in (0, 1))
        shares = [len(one & set(answer[number][2])) / len(one) for one, answer in zip(best, answers, strict=True)]
        recall[number] = sum(shares) / len(shares)
    usual = str(USUAL)
    costs = ", ".join(f"{number} {1e3 * seconds:.0f} ms" for number, seconds in whole.items())
    found = ", ".join(f"{number} {100 * share:.0f}%" for number, share in recall.items())
    return [
        Ratio(
            f"one point against {images:,} images, {USUAL} of them looked at, share of looking at all",
            whole[usual] / (scan * images),
            0.05,
            at_least=False,
            detail=f"{1e3 * coarse[usual]:.0f} ms coarse search; in all {costs}; looking at one {1e3 * scan:.2f} ms",
        ),
        Ratio(
            f"of the {TOP} best of {images:,} images, found among {USUAL}",
            recall[usual],
            0.8,
            at_least=True,
            detail=found,
        ),
        Ratio("bytes of the index, an image", size / images / 1024, 10, at_least=False, unit="KB", detail=memory),
    ]


def _mb(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"


def _in_process(name: str, **arguments: Any) -> tuple[Any, float, int]:
    """What a function of this module returns in a process of its own, its processor seconds, and its peak memory."""
    command = [sys.executable, "-c", _CHILD, json.dumps([name, arguments])]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    result, seconds, peak = json.loads(answer.stdout.splitlines()[-1])
    return result, seconds, peak
