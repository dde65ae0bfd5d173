"""A job: a manifest matched into Parquet shards, resumable at any moment, on an engine of choice.

The folder of a job holds ``_job.json`` (what is being done), ``part-<shard>.parquet`` (the results) and, while it runs,
``_encodings`` unless a store of one's own is given. A finished shard is never done again; nothing else is remembered.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsc.bulk.manifest import Manifest, ParquetManifest, copy_text, count_rows, find_manifest, write_rows
from simsc.bulk.places import Place, read_bytes
from simsc.bulk.rules import TilesManifest, chain, check_rule, find_images, nearest, read_lists, write_lists
from simsc.bulk.store import Encodings, Store, fingerprint
from simsc.bulk.worker import Done, Settings, Worker, finished_shards
from simsc.errors import ConfigError, DataError
from simsc.files import Lock
from simsc.matcher import Matcher, load
from simsc.reading import parse_json, typed_field

MOST_ROWS, FEWEST_ROWS, USUAL_SHARDS = 10_000, 256, 8
OWN_STORE = "_encodings"


@dataclass(frozen=True)
class Job:
    """Everything that a worker, here or on another machine, has to know.

    Attributes:
        out: folder of the job.
        settings: what decides the results.
        manifest: how the manifest is opened, see :meth:`open_manifest`.
        mark: fingerprint of the model and of how images enter it.
        store: folder of encodings, or None.
        max_bytes: memory for encodings, of all workers of one machine together.
    """

    out: str
    settings: Settings
    manifest: dict[str, Any]
    mark: str
    store: str | None = None
    max_bytes: int = 1 << 30

    def open_manifest(self) -> Manifest:
        """The manifest, from what ``_job.json`` says of it."""
        facts = self.manifest
        if facts["kind"] == "tiles":
            return TilesManifest(*read_lists(Place.at(self.out) / facts["lists"]), facts["shard_rows"])
        return ParquetManifest(facts["files"], facts["counts"], facts["shard_rows"])

    def load_matcher(self) -> Matcher:
        """The model of the job."""
        return load(self.settings.model, **self.settings.options)

    def worker(self, matcher: Matcher, workers: int) -> Worker:
        """A worker, one of so many on this machine."""
        return Worker(
            matcher,
            self.open_manifest(),
            Place.at(self.out),
            self.settings,
            store=Place.at(self.store) if self.store else None,
            mark=self.mark,
            max_bytes=self.max_bytes // workers,
        )


@dataclass(frozen=True)
class Resources:
    """What a job may use.

    Attributes:
        engine: ``local`` or ``ray``.
        workers: processes, or Ray actors; None for one per core, or one for an accelerator.
        store: folder of encodings to use and to fill; None for one inside the job's folder that is removed at its end,
            ``none`` for none at all.
        max_bytes: memory for encodings, of all workers of one machine together.
        store_bytes: limit of the store inside the job's folder.
        address: of a Ray cluster; None for one that runs here, or else a new one on this machine.
        cpus, gpus: resources of one Ray actor.
    """

    engine: str = "local"
    workers: int | None = None
    store: str | None = None
    max_bytes: int = 1 << 30
    store_bytes: int = 8 << 30
    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0


@dataclass
class Outcome:
    """What became of a job; also the progress while it runs.

    Attributes:
        out: folder of the results.
        rows, shards: of the whole job.
        resumed: shards that earlier runs had finished.
        total_now: rows that were left to this run; for a job in tiles an estimate.
        done, errors, encoded, seconds: rows, rows with an error, images encoded and time of this run.
        last: the shard that was finished last.
    """

    out: str
    rows: int
    shards: int
    resumed: int = 0
    done: int = 0
    errors: int = 0
    encoded: int = 0
    seconds: float = 0.0
    total_now: int = 0
    last: Done | None = None

    @property
    def pairs_per_second(self) -> float:
        """Of this run."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def images_per_second(self) -> float:
        """Images encoded by this run."""
        return self.encoded / self.seconds if self.seconds else 0.0

    def add(self, done: Done) -> None:
        """Count a finished shard."""
        self.done += done.rows
        self.errors += done.errors
        self.encoded += done.encoded
        self.last = done

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        facts = {name: value for name, value in vars(self).items() if name != "last"}
        return {**facts, "pairs_per_second": self.pairs_per_second, "images_per_second": self.images_per_second}


Progress = Callable[[Outcome], None]


def bulk(
    manifest: str | Path,
    out: str | Path,
    *,
    targets: str | Path | None = None,
    rule: str = "all",
    count: int = 5,
    shard_rows: int | None = None,
    settings: Settings | None = None,
    resources: Resources | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Match all rows of a manifest, or the images of folders by a rule, into Parquet files.

    Args:
        manifest: a Parquet, JSONL or CSV file, a folder of Parquet files, or a folder of images.
        out: folder of the results; a job that was interrupted goes on.
        targets: second folder of images; None to pair the images of the first one among themselves.
        rule: ``all``, ``nearest`` or ``chain``, for folders of images.
        count: how many nearest targets each source gets.
        shard_rows: rows per file; None for what suits their number.
        settings: what decides the results.
        resources: engine, workers, memory.
        progress: told the totals after each shard.
    """
    from simsc.bulk.engines import ENGINES

    settings, resources = settings or Settings(), resources or Resources()
    engine = ENGINES[resources.engine]
    place = Place.at(out)
    lock = Lock(place.path, folder=True) if place.local else nullcontext()
    with lock, engine(resources) as run_shards:
        matcher = load(settings.model, **settings.options)
        job = _open_job(place, matcher, Place.at(manifest), targets, rule, count, shard_rows, settings, resources)
        rows = job.open_manifest()
        finished = finished_shards(place)
        missing = [shard for shard in range(rows.shards) if shard not in finished]
        outcome = Outcome(str(place), rows.rows, rows.shards, resumed=rows.shards - len(missing))
        outcome.total_now = round(rows.rows * len(missing) / rows.shards) if rows.shards else 0
        started = time.perf_counter()
        for done in run_shards(job, matcher, missing):
            outcome.add(done)
            outcome.seconds = time.perf_counter() - started
            if progress:
                progress(outcome)
        if resources.store is None:
            (place / OWN_STORE).delete_folder()
    return outcome


def _open_job(
    out: Place,
    matcher: Matcher,
    manifest: Place,
    targets: str | Path | None,
    rule: str,
    count: int,
    shard_rows: int | None,
    settings: Settings,
    resources: Resources,
) -> Job:
    """The job of a folder: the one that was begun there, or a new one."""
    store = _store_folder(out, resources)
    mark = fingerprint(matcher)
    asked: dict[str, Any] = {
        "manifest": _identity(manifest),
        "targets": None if targets is None else str(Place.at(targets)),
        "rule": [rule, count] if manifest.is_folder() else None,
        "settings": settings.to_dict(),
        "model": mark,
        "use": _use(matcher),
    }
    facts_place = out / "_job.json"
    if facts_place.is_file():
        facts = _read_facts(facts_place, asked, shard_rows)
    else:
        if finished_shards(out):
            raise ConfigError(f"{out}: holds results but no _job.json; choose another folder")
        plan = _plan(out, matcher, manifest, targets, rule, count, shard_rows, settings, store)
        facts = {"asked": asked, "plan": plan}
        facts_place.write(json.dumps(facts, indent=2).encode())
    return Job(str(out), settings, facts["plan"], mark, store, resources.max_bytes)


def _plan(
    out: Place,
    matcher: Matcher,
    manifest: Place,
    targets: str | Path | None,
    rule: str,
    count: int,
    shard_rows: int | None,
    settings: Settings,
    store: str | None,
) -> dict[str, Any]:
    """Cut the work into shards that can be read alone."""
    if manifest.is_folder() and not any(file.name.endswith(".parquet") for file in manifest.files(recursive=True)):
        check_rule(rule, count, targets is not None)
        sources = find_images(manifest)
        others = sources if targets is None else find_images(Place.at(targets))
        if rule == "all":
            size = shard_rows or _usual_rows(len(sources) * len(others))
            write_lists(out / "_images.json", sources, others)
            return {"kind": "tiles", "lists": "_images.json", "shard_rows": size}
        if rule == "chain":
            rows: Iterator[dict[str, str]] = chain(sources)
        else:
            folder = Store(Place.at(store), matcher) if store else None
            root = Place.at(settings.root)
            images = Encodings(matcher, lambda image: image, lambda _: 1, root=root, store=folder, max_bytes=0)
            rows = nearest(images, sources, others, count)
        files = write_rows(rows, out / "_manifest")
    else:
        if targets is not None:
            raise ConfigError(f"{manifest}: a manifest has its own targets; a second folder needs a folder of images")
        files = find_manifest(manifest) or copy_text(manifest, out / "_manifest")
    counts = count_rows(files)
    size = shard_rows or _usual_rows(sum(counts))
    return {"kind": "parquet", "files": [str(file) for file in files], "counts": counts, "shard_rows": size}


def _usual_rows(rows: int) -> int:
    """Rows per shard: enough shards to share the work, not more files than needed.

    >>> [_usual_rows(rows) for rows in (100, 10_000, 10**9)]
    [256, 1250, 10000]
    """
    return min(max(-(-rows // USUAL_SHARDS), FEWEST_ROWS), MOST_ROWS)


def _read_facts(place: Place, asked: dict[str, Any], shard_rows: int | None) -> dict[str, Any]:
    facts: dict[str, Any] = parse_json(read_bytes(place).decode("utf-8", "replace"), place)
    before, plan = (typed_field(facts, name, dict, place) for name in ("asked", "plan"))
    _check_plan(plan, place)
    asked = json.loads(json.dumps(asked))
    changed = [name for name in asked if before.get(name) != asked[name]]
    if shard_rows is not None and shard_rows != plan["shard_rows"]:
        changed.append("shard_rows")
    if changed:
        raise ConfigError(
            f"{place.parent}: holds a job with another {' and another '.join(changed)}; choose another folder"
        )
    return facts


def _check_plan(plan: dict[str, Any], place: Place) -> None:
    """Refuse a plan that :func:`_plan` did not make."""
    if typed_field(plan, "shard_rows", int, place) < 1:
        raise DataError(f"{place}: the field 'shard_rows' must be 1 or more, got {plan['shard_rows']}")
    if typed_field(plan, "kind", str, place) == "tiles":
        typed_field(plan, "lists", str, place)
        return
    files, counts = (typed_field(plan, name, list, place) for name in ("files", "counts"))
    whole = all(isinstance(count, int) and count >= 0 for count in counts)
    if not whole or len(files) != len(counts) or not all(isinstance(file, str) for file in files):
        raise DataError(f"{place}: the fields 'files' and 'counts' do not describe a manifest")


def _identity(manifest: Place) -> dict[str, Any]:
    """What tells one manifest from another without reading it all."""
    info = manifest.info()
    return {"path": str(manifest), "size": info.size, "time": None if manifest.is_folder() else str(info.mtime_ns)}


def _use(matcher: Matcher) -> str:
    """Hash of what turns encodings into matches and their confidence."""
    facts = f"{matcher.localizer} {matcher.trained.card.coherent} {matcher.beta_eval} {matcher.trained.calibration}"
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _store_folder(out: Place, resources: Resources) -> str | None:
    if resources.store == "none" or (resources.store is None and resources.engine != "local"):
        return None
    return str(out / OWN_STORE) if resources.store is None else str(resources.store)
