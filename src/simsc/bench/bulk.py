"""Bulk matching: what a pair, an image and an engine cost, and how much memory a longer manifest takes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
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

POINTS = 10
_MEASURE = """
import json, resource, sys
from simsc.bulk import Resources, Settings, bulk
manifest, out, settings, store = json.loads(sys.argv[1])
outcome = bulk(manifest, out, settings=Settings(**settings), resources=Resources(workers=1, store=store))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([outcome.seconds, outcome.encoded, peak * (1 if sys.platform == "darwin" else 1024)]))
"""


def bench_bulk(quick: bool = False, images: int = 500, pairs: Sequence[int] = (1_000, 10_000, 100_000)) -> list[Ratio]:
    """Manifests of growing length over the same images; ten points a pair."""
    size, images, pairs = (64, 8, (20, 60, 180)) if quick else (256, images, tuple(pairs))
    with TemporaryDirectory() as name:
        folder = Path(name)
        photos = _photos(folder / "photos", images)
        settings: dict[str, Any] = {"options": {"size": size, "device": "cpu"}, "root": str(folder / "photos")}
        matcher = load(size=size, device="cpu")
        manifests = [_manifest(folder / f"{count}.jsonl", photos, count) for count in pairs]
        return [
            _against_backbone(matcher, folder, photos[: 4 if quick else 16], 1 if quick else 5),
            *_against_pairs(manifests, pairs, settings, folder, images),
            *_against_loop(matcher, manifests[1], settings, folder, 3 if quick else 20),
            *(_against_ray(manifests[1], settings, folder) if find_spec("ray") else []),
            *_collection(folder, settings["options"], 2 if quick else 20),
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
            matcher.model.backbone.layers(each, [matcher.model.backbone.num_blocks])

    seconds = alternate({"ours": ours, "bare": bare}, repeats)
    rates = [len(photos) / seconds[name] for name in ("ours", "bare")]
    return Ratio(
        "encodings per second, against the bare backbone",
        rates[0] / rates[1],
        0.9,
        at_least=True,
        detail=f"{rates[0]:.1f} against {rates[1]:.1f} images/s",
    )


def _against_pairs(
    manifests: Sequence[Path], pairs: Sequence[int], settings: dict[str, Any], folder: Path, images: int
) -> list[Ratio]:
    """Each length in a process of its own, from nothing; then the longest one again from the store."""
    results = []
    for manifest in manifests:
        store = str(folder / f"store-{manifest.stem}")
        results.append(_run(manifest, folder / f"out-{manifest.stem}", settings, store))
    seconds, encoded, memory = zip(*results, strict=True)
    alone, _, _ = _run(manifests[-1], folder / "again", settings, str(folder / f"store-{manifests[-1].stem}"))
    each = ", ".join(f"{count:,} pairs {1e3 * took / count:.2f} ms" for count, took in zip(pairs, seconds, strict=True))
    peaks = ", ".join(f"{count:,} pairs {peak / 2**20:.0f} MB" for count, peak in zip(pairs, memory, strict=True))
    return [
        Ratio(
            f"{pairs[-1]:,} pairs of {images} images, encodings per image",
            encoded[-1] / images,
            1.0,
            at_least=False,
        ),
        Ratio(
            f"a pair of {pairs[-1]:,}, share of the cost of a pair of {pairs[0]:,}",
            (seconds[-1] / pairs[-1]) / (seconds[0] / pairs[0]),
            0.2,
            at_least=False,
            detail=f"{each}; matching alone {1e3 * alone / pairs[-1]:.2f} ms",
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
    store, count = str(folder / f"store-{manifest.stem}"), len(lines)

    def ours(turn: int) -> float:
        out = folder / f"loop-{turn}"
        done = bulk(manifest, out, settings=Settings(**settings), resources=Resources(workers=1, store=store))
        return done.seconds  # without opening the model, as on the other sides

    def paths(_: int) -> float:
        started = time.perf_counter()
        for line in chosen:
            matcher.match(folder / "photos" / line["source"], folder / "photos" / line["target"], line["points"])
        return time.perf_counter() - started

    def ready(_: int) -> float:
        started = time.perf_counter()
        for line in chosen:
            matcher.match(encoded[line["source"]], encoded[line["target"]], line["points"])
        return time.perf_counter() - started

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        taken = [(ours(turn), paths(turn), ready(turn)) for turn in range(3)]
    finally:
        torch.set_num_threads(threads)
    seconds = dict(zip(("ours", "paths", "ready"), map(median, zip(*taken, strict=True)), strict=True))
    one = seconds["ours"] / count
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
    """The same job with two workers on both engines, started already, from the same encodings."""
    from simsc.bulk.engines import connect

    ray, ours = connect(num_cpus=2)
    seconds: dict[str, list[float]] = {"local": [], "ray": []}
    try:
        for turn in range(3):
            for engine, taken in seconds.items():
                out = folder / f"{engine}-{turn}"
                store = str(folder / f"store-{manifest.stem}")
                started = time.perf_counter()
                bulk(manifest, out, settings=Settings(**settings), resources=Resources(engine, 2, store))
                taken.append(time.perf_counter() - started)
    finally:
        if ours:
            ray.shutdown()
    local, other = (sorted(taken)[1] for taken in seconds.values())
    return [
        Ratio(
            f"Ray against local processes, {manifest.stem} pairs, two workers, start of the workers included",
            other / local,
            1.15,
            at_least=False,
            detail=f"{other:.1f} s against {local:.1f} s",
        )
    ]


def _collection(folder: Path, options: dict[str, Any], queries: int) -> list[Ratio]:
    """One point against a collection: all images, and those that the coarse search chooses."""
    build_index(folder / "photos", folder / "index", options=options, workers=1)
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


def _photos(folder: Path, count: int) -> list[str]:
    """Pictures of soft colours: for speed their content is of no matter."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for index in range(count):
        tiles = Image.fromarray(random.integers(0, 255, (12, 16, 3), dtype=np.uint8))
        tiles.resize((320, 240), Image.Resampling.BICUBIC).save(folder / f"{index:04}.jpg")
    return sorted(path.name for path in folder.iterdir())


def _manifest(path: Path, photos: Sequence[str], count: int) -> Path:
    """Pairs drawn at random; an image has the same ten points in each."""
    random = np.random.default_rng(1)
    points = {name: random.uniform(0, 230, (POINTS, 2)).round(1).tolist() for name in photos}
    with path.open("w", encoding="utf-8") as stream:
        for source, target in random.integers(0, len(photos), (count, 2)):
            row = {"source": photos[source], "target": photos[target], "points": points[photos[source]]}
            stream.write(json.dumps(row) + "\n")
    return path
