"""Bulk matching: what a pair, an image and an engine cost, and how much memory a longer manifest takes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image

from simsc.bench.ratios import Ratio, alternate
from simsc.bulk import Resources, Settings, bulk
from simsc.bulk.index import Index, build_index
from simsc.bulk.places import Place
from simsc.bulk.store import Encodings, Store
from simsc.images import read_image
from simsc.matcher import Matcher, load
from simsc.processes import one_thread

POINTS = 10
_MEASURE = """
import json, resource, sys, time
from simsc.bulk import Resources, Settings, bulk
from simsc.bulk.worker import Worker
manifest, out, settings, store = json.loads(sys.argv[1])
run, taken = Worker.__call__, 0.0
def timed(worker, shard):
    global taken
    started = time.process_time()
    done = run(worker, shard)
    taken += time.process_time() - started
    return done
Worker.__call__ = timed
outcome = bulk(manifest, out, settings=Settings(**settings), resources=Resources(workers=1, store=store))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([taken, outcome.encoded, peak * (1 if sys.platform == "darwin" else 1024)]))
"""


def bench_bulk(
    quick: bool = False,
    images: int = 500,
    pairs: Sequence[int] = (1_000, 10_000, 100_000),
    model: str | None = None,
    photos: str | Path | None = None,
) -> list[Ratio]:
    """Manifests of growing length over the same images, ten points a pair, in processor time of one worker.

    Args:
        quick: small sizes.
        images: how many of them.
        pairs: lengths of the manifests.
        model: None for the packaged one.
        photos: folder of JPEG files to take the images from; None for pictures of soft colours.
    """
    size: int | None = None
    if quick:
        size, images, pairs = 64, 8, (20, 60, 180)
    with TemporaryDirectory() as name:
        folder = Path(name)
        chosen = _photos(folder / "photos", images, photos)
        options: dict[str, Any] = {"size": size, "device": "cpu"}
        settings: dict[str, Any] = {"model": model, "options": options, "root": str(folder / "photos")}
        matcher = load(model, **options)
        manifests = [_manifest(folder / f"{length}.jsonl", chosen, length) for length in pairs]
        return [
            _against_backbone(matcher, folder, chosen[: 4 if quick else 16], 1 if quick else 5),
            *_against_pairs(manifests, pairs, settings, folder, images),
            *_against_loop(matcher, manifests[1], settings, folder, 3 if quick else 20),
            *(_against_ray(manifests[1], settings, folder) if find_spec("ray") else []),
            *_collection(folder, model, options, 2 if quick else 20),
        ]


def _against_backbone(matcher: Matcher, folder: Path, photos: Sequence[str], repeats: int) -> Ratio:
    """Reading, encoding and storing images, against the bare network on inputs that lie ready."""
    pixels = [read_image(folder / "photos" / name) for name in photos]
    inputs = [matcher.view.frame((each.shape[0], each.shape[1])).to_input(each)[None] for each in pixels]

    def ours() -> None:
        shutil.rmtree(folder / "fresh", ignore_errors=True)
        store = Store(Place.at(folder / "fresh"), matcher, "mark")
        root = Place.at(folder / "photos")
        Encodings(matcher, lambda _: 0, lambda _: 0, root=root, store=store, max_bytes=0).prepare(photos)

    @torch.inference_mode()
    def bare() -> None:
        for each in inputs:
            matcher.model.encode(each)

    with one_thread():
        seconds = alternate({"ours": ours, "bare": bare}, repeats, time.process_time)
    rates = [len(photos) / seconds[name] for name in ("ours", "bare")]
    return Ratio(
        "encodings per second, against the bare network",
        rates[0] / rates[1],
        0.9,
        at_least=True,
        detail=f"{1e3 / rates[0]:.0f} against {1e3 / rates[1]:.0f} ms an image",
    )


def _against_pairs(
    manifests: Sequence[Path], pairs: Sequence[int], settings: dict[str, Any], folder: Path, images: int
) -> list[Ratio]:
    """Each length in a process of its own: the shortest from nothing, then all of them from its encodings."""
    store = str(folder / "store")
    first, encoded, _ = _run(manifests[0], folder / "first", settings, store)
    results = [_run(each, folder / f"out-{each.stem}", settings, store) for each in manifests]
    matching, later, memory = zip(*results, strict=True)
    encoding = (first - matching[0]) / encoded
    costs = [1e3 * (images * encoding + taken) / length for length, taken in zip(pairs, matching, strict=True)]
    alone = [1e3 * taken / length for length, taken in zip(pairs, matching, strict=True)]
    each = ", ".join(
        f"{length:,} pairs {cost:.2f} ms, {match:.2f} of it matching"
        for length, cost, match in zip(pairs, costs, alone, strict=True)
    )
    peaks = ", ".join(f"{length:,} pairs {peak / 2**20:.0f} MB" for length, peak in zip(pairs, memory, strict=True))
    return [
        Ratio(
            f"{sum(pairs):,} pairs of {images} images, encodings per image",
            (encoded + sum(later)) / images,
            1.0,
            at_least=False,
            detail=f"{1e3 * encoding:.0f} ms each",
        ),
        Ratio(
            f"a pair of {pairs[-1]:,}, share of the cost of a pair of {pairs[0]:,}",
            costs[-1] / costs[0],
            0.2,
            at_least=False,
            detail=each,
        ),
        Ratio(
            f"peak memory of {pairs[-1]:,} pairs, against {pairs[-2]:,}",
            memory[-1] / memory[-2],
            1.25,
            at_least=False,
            detail=peaks,
        ),
    ]


def _run(manifest: Path, out: Path, settings: dict[str, Any], store: str) -> tuple[float, int, int]:
    """Processor time of matching a manifest, images encoded, and peak memory of the process."""
    argument = json.dumps([str(manifest), str(out), settings, store])
    answer = subprocess.run([sys.executable, "-c", _MEASURE, argument], check=True, capture_output=True, text=True)
    seconds, encoded, peak = json.loads(answer.stdout.splitlines()[-1])
    return seconds, encoded, peak


def _against_loop(matcher: Matcher, manifest: Path, settings: dict[str, Any], folder: Path, sample: int) -> list[Ratio]:
    """Pairs of images that are in the store, against calls of ``match`` with paths, and with encoded images."""
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    chosen = lines[:: max(len(lines) // sample, 1)][:sample]
    names = {line[side] for line in chosen for side in ("source", "target")}
    encoded = {name: matcher.encode(folder / "photos" / name) for name in names}

    def paths() -> None:
        for line in chosen:
            matcher.match(folder / "photos" / line["source"], folder / "photos" / line["target"], line["points"])

    def ready() -> None:
        for line in chosen:
            matcher.match(encoded[line["source"]], encoded[line["target"]], line["points"])

    with one_thread():
        seconds = alternate({"paths": paths, "ready": ready}, 3, time.process_time)
    one = _run(manifest, folder / "loop", settings, str(folder / "store"))[0] / len(lines)
    return [
        Ratio(
            f"pairs per second from encoded images, against a loop over match{what}",
            seconds[name] / len(chosen) / one,
            target,
            at_least=True,
            detail=f"{1e3 * one:.2f} ms against {1e3 * seconds[name] / len(chosen):.2f} ms",
        )
        for name, what, target in (("paths", "", 20), ("ready", " of encoded images", 5))
    ]


def _against_ray(manifest: Path, settings: dict[str, Any], folder: Path) -> list[Ratio]:
    """The same job with two workers on both engines in turns, their start included, from the same encodings."""
    from simsc.bulk.engines import connect

    ray, ours = connect(num_cpus=2)
    store, turns = str(folder / "store"), count()

    def job(engine: str) -> None:
        bulk(
            manifest,
            folder / f"{engine}-{next(turns)}",
            settings=Settings(**settings),
            resources=Resources(engine, 2, store),
        )

    try:
        seconds = alternate({"local": partial(job, "local"), "ray": partial(job, "ray")}, 3)
    finally:
        if ours:
            ray.shutdown()
    return [
        Ratio(
            f"Ray against local processes, {manifest.stem} pairs, two workers, start of the workers included",
            seconds["ray"] / seconds["local"],
            1.15,
            at_least=False,
            detail=f"{seconds['ray']:.1f} s against {seconds['local']:.1f} s",
        )
    ]


def _collection(folder: Path, model: str | None, options: dict[str, Any], queries: int) -> list[Ratio]:
    """One point against a collection: all images, and those that the coarse search chooses."""
    store = str(folder / "store")
    build_index(folder / "photos", folder / "index", model=model, options=options, store=store, workers=1)
    index = Index(folder / "index", device="cpu", max_bytes=0)
    photos = index.images[:queries]
    encoded = [index.matcher.encode(path) for path in photos]
    few = max(len(index) // 10, 2)

    def scan() -> list[set[str]]:
        return [{hit.image for hit in index.find(each, (50, 60), top=5, exhaustive=True)} for each in encoded[:3]]

    def coarse() -> list[set[str]]:
        return [{hit.image for hit in index.find(each, (50, 60), top=5, candidates=few)} for each in encoded[:3]]

    seconds = alternate({"scan": scan, "coarse": coarse}, 3)
    agreement = np.mean([len(one & two) / len(one) for one, two in zip(scan(), coarse(), strict=True)])
    each = 1e3 * seconds["scan"] / 3 / len(index)
    return [
        Ratio(
            f"one point against {len(index)} stored images, per image",
            each,
            5,
            at_least=False,
            unit="ms",
            detail=f"coarse to fine over a tenth of them: {1e3 * seconds['coarse'] / 3:.0f} ms a query instead of "
            f"{1e3 * seconds['scan'] / 3:.0f} ms; {100 * agreement:.0f}% of the five best agree",
        )
    ]


def _photos(folder: Path, number: int, source: str | Path | None) -> list[str]:
    """So many images of a folder; without one, pictures: for speed their content is of no matter."""
    if source is None:
        soft_pictures(folder, number)
    else:
        folder.mkdir()
        for index, path in enumerate(sorted(Path(source).rglob("*.jpg"))[:number]):
            shutil.copy(path, folder / f"{index:04}.jpg")
    return sorted(path.name for path in folder.iterdir())


def soft_pictures(folder: Path, number: int) -> Path:
    """A folder with so many pictures of soft colours."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    for index in range(number):
        tiles = Image.fromarray(random.integers(0, 255, (12, 16, 3), dtype=np.uint8))
        tiles.resize((500, 375), Image.Resampling.BICUBIC).save(folder / f"{index:04}.jpg")
    return folder


def _points(photo: Path, random: np.random.Generator) -> list[list[float]]:
    with Image.open(photo) as image:
        inside: list[list[float]] = (random.random((POINTS, 2)) * (np.array(image.size) - 1)).round(1).tolist()
    return inside


def _manifest(path: Path, photos: Sequence[str], length: int) -> Path:
    """Pairs drawn at random; an image has the same ten points in each."""
    random = np.random.default_rng(1)
    points = {name: _points(path.parent / "photos" / name, random) for name in photos}
    with path.open("w", encoding="utf-8") as stream:
        for source, target in random.integers(0, len(photos), (length, 2)):
            row = {"source": photos[source], "target": photos[target], "points": points[photos[source]]}
            stream.write(json.dumps(row) + "\n")
    return path
