"""Against a real Ray of two workers on this machine, which listens on it alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import simsc.bulk.engines as engines
from simsc.bulk import Outcome, Resources, Settings, bulk
from simsc.bulk.engines import connect

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray"),  # importing it would be too early
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
]
TWO = Resources("ray", workers=2)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    ray, _ = connect(num_cpus=2)
    yield ray
    ray.shutdown()


def numbers(folder: Path) -> list[int]:
    """Row numbers of all results, each as often as it is there."""
    return sorted(pq.read_table(folder, columns=["row"])["row"].to_pylist())


def test_ray_writes_the_same_bytes_also_when_a_worker_is_killed(
    manifest: Path, tmp_path: Path, packaged: Settings
) -> None:
    killed: list[int] = []

    def kill_one(outcome: Outcome) -> None:
        if not killed and outcome.last is not None:
            killed.append(outcome.last.process)
            os.kill(outcome.last.process, signal.SIGKILL)

    outcome = bulk(manifest, tmp_path / "ray", shard_rows=2, settings=packaged, resources=TWO, progress=kill_one)
    assert killed
    assert (outcome.done, outcome.errors) == (36, 0)
    assert numbers(tmp_path / "ray") == list(range(36))
    bulk(manifest, tmp_path / "local", shard_rows=2, settings=packaged, resources=Resources(workers=1))
    for path in sorted((tmp_path / "local").glob("part-*.parquet")):
        assert (tmp_path / "ray" / path.name).read_bytes() == path.read_bytes()
    again = bulk(manifest, tmp_path / "ray", settings=packaged, resources=TWO)
    assert (again.resumed, again.done) == (18, 0)


def test_addresses_of_ray_clients_run_the_pipeline_inside_the_cluster(
    manifest: Path, tmp_path: Path, tiny: Settings, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.util.client.ray, "is_connected", lambda: True)
    monkeypatch.setattr(engines, "_pipeline", None)  # here; the actor imports its own
    outcome = bulk(manifest, tmp_path / "out", shard_rows=20, settings=tiny, resources=TWO)
    assert (outcome.done, outcome.shards) == (36, 2)
    assert numbers(tmp_path / "out") == list(range(36))


def test_nothing_listens_beyond_this_machine(cluster: Any) -> None:
    assert {node["NodeManagerAddress"] for node in cluster.nodes()} == {"127.0.0.1"}
    foreign = [address for process in _ray_processes(cluster) for address in _listening(process)]
    assert foreign == []


def _ray_processes(cluster: Any) -> list[int]:
    session = Path(cluster._private.worker._global_node.get_session_dir_path()).name
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if session in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    assert found
    return found


def _listening(process: int) -> list[str]:
    """Addresses other than the loopback that a process waits for connections at, as the kernel writes them."""
    sockets = set()
    for file in Path(f"/proc/{process}/fd").iterdir():
        try:
            sockets.add(str(file.readlink()))
        except OSError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, _, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets and not local.startswith(LOOPBACK):
                found.append(local)
    return found


LOOPBACK = ("0100007F:", "0000000000000000FFFF00000100007F:", "00000000000000000000000001000000:")
