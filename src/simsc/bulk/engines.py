"""Who does the work: processes of this machine that share the model's memory, or a Ray cluster.

An engine takes shards in any order and reports each when its file is written. Neither has a queue, a scheduler or
retries of its own: :mod:`simsc.processes` does it here, Ray Data there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch

from simsc.bulk.job import OWN_STORE, Job, Resources
from simsc.bulk.places import Place, need
from simsc.bulk.worker import Done
from simsc.matcher import Matcher
from simsc.processes import spread, usual_workers
from simsc.registry import Registry

RunShards = Callable[[Job, Matcher, Sequence[int]], Iterator[Done]]
Engine = Callable[[Resources], AbstractContextManager[RunShards]]
ENGINES: Registry[Engine] = Registry("engine")
"""Each is entered before the plan is made, so that it can get ready meanwhile, and left when all shards are done."""

OBJECT_STORE = 200 << 20
"""Bytes of shared memory that a Ray begun here sets aside."""

ACTORS_NEED = ["ray.data", __name__]
"""What the first workers of a Ray begun here import while the plan is made: a second or two that no actor waits for."""


@ENGINES.register("local")
@contextmanager
def local(resources: Resources) -> Iterator[RunShards]:
    """Processes of this machine, each with one thread, so that results do not depend on how many there are."""

    def run(job: Job, matcher: Matcher, shards: Sequence[int]) -> Iterator[Done]:
        tidy = _Tidy(job, resources)
        workers = usual_workers(matcher.device, resources.workers, len(shards))
        for done in spread(partial(job.worker, matcher), shards, workers, matcher.model):
            tidy(done)
            yield done

    yield run


class _Tidy:
    """Keeps the store inside the job's folder below its limit: files not used for longest go first."""

    def __init__(self, job: Job, resources: Resources) -> None:
        self.folder = Place.at(job.out) / OWN_STORE if resources.store is None else None
        self.limit = resources.store_bytes
        self.stored = self.limit + 1  # what an earlier run left is counted with the first report

    def __call__(self, done: Done) -> None:
        self.stored += done.stored
        if self.folder is None or self.stored <= self.limit:
            return
        fs = need("pyarrow.fs")
        selector = fs.FileSelector(self.folder.path, recursive=True, allow_not_found=True)
        files = [each for each in self.folder.system.get_file_info(selector) if each.is_file]
        self.stored = sum(each.size for each in files)
        for each in sorted(files, key=lambda each: each.mtime_ns or 0):
            if self.stored <= 0.8 * self.limit:
                break
            replace(self.folder, path=each.path).delete()
            self.stored -= each.size


class RayWorker:
    """An actor: one model, the shards that Ray hands to it."""

    def __init__(self, job: Job, threads: int) -> None:
        torch.set_num_threads(threads)
        self.work = job.worker(job.load_matcher(), 1)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Match the shards of a batch."""
        results = [asdict(self.work(int(shard))) for shard in batch["shard"]]
        return {name: [result[name] for result in results] for name in results[0]}


@ENGINES.register("ray")
@contextmanager
def on_ray(resources: Resources) -> Iterator[RunShards]:
    """A Ray Data pipeline: shards in, reports out, one model per actor; Ray repeats what a lost worker had in hand."""
    ray, started = connect(resources.address)

    def run(job: Job, matcher: Matcher, shards: Sequence[int]) -> Iterator[Done]:  # noqa: ARG001
        if not shards:
            return
        if not ray.util.client.ray.is_connected():
            yield from _pipeline(job, shards, resources)
            return
        remote = ray.remote(num_cpus=0)(RemotePipeline).remote(job, shards, resources)
        while (done := ray.get(remote.next.remote())) is not None:
            yield done

    try:
        yield run
    finally:
        if started:
            ray.shutdown()


def _pipeline(job: Job, shards: Sequence[int], resources: Resources) -> Iterator[Done]:
    ray = need("ray", "ray")
    workers = resources.workers or max(int(ray.cluster_resources().get("CPU", 1) // max(resources.cpus, 1)), 1)
    data = need("ray.data", "ray").from_items([{"shard": shard} for shard in shards], override_num_blocks=len(shards))
    reports = data.map_batches(
        RayWorker,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(workers, len(shards))),
        num_cpus=resources.cpus,
        num_gpus=resources.gpus or None,
        fn_constructor_kwargs={"job": job, "threads": max(int(resources.cpus), 1)},
    )
    for row in reports.iter_rows():
        yield Done(**row)


class RemotePipeline:
    """The pipeline inside the cluster, for ``ray://``: Ray Data does not run on the other side of a Ray client."""

    def __init__(self, job: Job, shards: Sequence[int], resources: Resources) -> None:
        self.reports = _pipeline(job, shards, resources)

    def next(self) -> Done | None:
        """The next report; None after the last."""
        return next(self.reports, None)


def connect(address: str | None = None, **options: Any) -> tuple[Any, bool]:
    """Ray, joined to the cluster of an address or of ``RAY_ADDRESS``, or else begun on this machine; and whether it is
    ours to end.

    One that is begun here listens on this machine alone, and needs little memory: pairs and results travel as files.
    """
    address = address or os.environ.get("RAY_ADDRESS")
    if address is None:
        # Read when Ray is imported: without the first, Ray on Linux replaces 127.0.0.1 by an address others can reach.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # usually 15: workers would starve where local ones do not
        here = {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "object_store_memory": OBJECT_STORE}
        options = {**here, "_system_config": {"preload_python_modules": ACTORS_NEED}, **options}
    ray = need("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        ray.init(address=address or "local", log_to_driver=False, **options)
    need("ray.data", "ray")  # last: it takes a second, in which the first workers start
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.WARNING)  # the job has a progress line of its own
    return ray, ours
