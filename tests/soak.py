"""``make soak``: many clients click for a while; prints how long a click takes and whether the server's memory grows.

Everything stays on this machine: the server listens on 127.0.0.1, and the clients are threads of this program.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image

HOST = "127.0.0.1"
MOST_CLIENTS, MOST_SECONDS = 100, 600


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=50)
    options.add_argument("--seconds", type=int, default=120)
    options.add_argument("--pause", type=float, default=0.0, help="seconds between an answer and the next click")
    options.add_argument("--model", help="default: the page's own")
    options.add_argument("--limit", type=float, default=2.0, help="seconds that 95 of 100 clicks may take")
    given = options.parse_args()
    clients, seconds = min(given.clients, MOST_CLIENTS), min(given.seconds, MOST_SECONDS)
    port = _free_port()
    chosen = ["--model", given.model] if given.model else []
    server = subprocess.Popen(
        [sys.executable, "-m", "simsc", "serve", "--host", HOST, "--port", str(port), *chosen],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        users = [_User(port, number, given.pause) for number in range(clients)]
        begun = time.monotonic()
        _all(user.arrive for user in users)
        arrived = time.monotonic() - begun
        memory, used = [_memory(server.pid)], _processor(server.pid)
        end = time.monotonic() + seconds
        watcher = threading.Thread(target=_watch, args=(server.pid, memory, end), daemon=True)
        watcher.start()
        _all((lambda user=user: user.click_until(end)) for user in users)
        processor = _processor(server.pid) - used
    finally:
        server.terminate()
        server.wait()
    sys.exit(0 if _report(users, arrived, memory, processor, seconds, given.limit) else 1)


class _User:
    """Somebody with a pair of images of one's own."""

    def __init__(self, port: int, number: int, pause: float) -> None:
        self.port, self.pause, self.random = port, pause, random.Random(number)
        self.took: list[float] = []
        self.refused = 0
        self.failed: list[str] = []

    def arrive(self) -> None:
        self.images = [self._upload() for _ in range(2)]
        for image in self.images:  # as the page does
            self._ask("POST", f"/api/images/{image}/encode", b"", {})

    def click_until(self, end: float) -> None:
        while time.monotonic() < end:
            point = [self.random.uniform(5, 470), self.random.uniform(5, 350)]
            question = {"source": self.images[0], "target": self.images[1], "points": [point], "scores": True}
            begun = time.monotonic()
            status = self._ask(
                "POST", "/api/match", json.dumps(question).encode(), {"Content-Type": "application/json"}
            )
            if status == 200:
                self.took.append(time.monotonic() - begun)
            if status == 404:  # had to make room
                self.arrive()
            time.sleep(self.pause)

    def _upload(self) -> str:
        noise = np.random.default_rng(self.random.randrange(10**6)).integers(0, 255, (36, 48, 3), dtype=np.uint8)
        stream = io.BytesIO()
        Image.fromarray(noise).resize((480, 360)).save(stream, "JPEG")
        part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.jpg"\r\n\r\n'
        body = part + stream.getvalue() + b"\r\n--x--\r\n"
        self._ask("POST", "/api/images", body, {"Content-Type": "multipart/form-data; boundary=x"})
        return str(json.loads(self.answer)["id"])

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> int:
        while True:
            connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
            try:
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                self.answer = response.read()
            except OSError as error:
                self.failed.append(repr(error))
                return 0
            finally:
                connection.close()
            if response.status != 503:
                if response.status not in (200, 201, 204, 404):
                    self.failed.append(f"{path}: {response.status}")
                return response.status
            self.refused += 1
            time.sleep(0.5)


def _report(
    users: list[_User], arrived: float, memory: list[float], processor: float, seconds: int, limit: float
) -> bool:
    took = sorted(value for user in users for value in user.took)
    cuts = statistics.quantiles(took, n=100)
    half = memory[len(memory) // 2 :]
    growth = half[-1] - half[0]
    print(f"{len(users)} clients, {seconds} s: {len(took)} clicks, {len(took) / seconds:.1f} a second")
    print(f"click: median {cuts[49]:.2f} s, 95 of 100 within {cuts[94]:.2f} s, longest {took[-1]:.2f} s")
    print(f"all had uploaded and encoded two images after {arrived:.1f} s")
    print(f"told to come again: {sum(user.refused for user in users)}; failed: {sum(len(u.failed) for u in users)}")
    print(f"processor: {processor:.0f} s of the server's, {1000 * processor / len(took):.0f} ms a click with all else")
    print(f"memory: {memory[0]:.0f} MB at first, {max(memory):.0f} MB at most, {growth:+.0f} MB in the second half")
    for user in users:
        for failure in user.failed[:1]:
            print("failed:", failure)
    return cuts[94] <= limit and growth < 50 and not any(user.failed for user in users)


def _all(jobs: object) -> None:
    threads = [threading.Thread(target=job, daemon=True) for job in jobs]  # type: ignore[attr-defined]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _watch(process: int, memory: list[float], end: float) -> None:
    while time.monotonic() < end:
        time.sleep(1)
        memory.append(_memory(process))


def _memory(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _processor(process: int) -> float:
    """Seconds that a process has computed: on a busy machine these say more than the clock."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection((HOST, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    main()
