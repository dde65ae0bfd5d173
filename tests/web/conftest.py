"""A server around a network small enough for every test, and images to send to it."""

from __future__ import annotations

import io
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from simsc.matcher import Matcher
from simsc.models.backbone import from_spec
from simsc.models.model import SimSC
from simsc.models.specs import find_backbone

pytest.importorskip("fastapi", reason="the extra 'web' is not installed")

from fastapi.testclient import TestClient

from simsc.web.app import create_app
from simsc.web.settings import Settings

MODELS = {"first": "resnet50.v1_in1k", "second": "resnet50.tv_in1k"}


@pytest.fixture(scope="session")
def small_matcher() -> Callable[[str], Matcher]:
    """Loads a small ResNet with random weights of its own for each name, at 128 pixels: 8x8 cells."""

    def load(name: str) -> Matcher:
        spec = find_backbone(name)
        sizes = {"depths": (1, 1, 1), "widths": (16, 32, 64), "stem": 8}
        spec = replace(spec, settings={**spec.settings, **sizes}, channels=64, blocks=3, input_size=128)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3 + sum(name.encode()))
            model = SimSC(from_spec(spec), temperature="mlp", trainable="none")
        return Matcher(model, device="cpu")

    return load


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """An installed Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'dev')")
    if BROWSER is None:
        pytest.skip("no Chromium found on the PATH (Debian: apt install chromium)")
    # The sandbox of Chromium cannot be set up by root.
    flags = [*FLAGS, "--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else FLAGS
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def swipe() -> Callable[[Any, np.ndarray, tuple[float, float]], None]:
    """Puts a finger down on a page, moves it and lifts it, as a touch screen tells it."""

    def move(page: Any, start: np.ndarray, way: tuple[float, float]) -> None:
        session = page.context.new_cdp_session(page)
        for step in range(7):
            x, y = start + np.array(way) * step / 6
            kind = "touchMove" if step else "touchStart"
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
            page.wait_for_timeout(30)
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(100)

    return move


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Any], str]]:
    """Runs an application on a free port and gives its address."""
    uvicorn = pytest.importorskip("uvicorn", reason="the extra 'web' is not installed")
    running = []

    def start(app: Any) -> str:
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        running.append((server, thread))
        while not server.started:
            time.sleep(0.02)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(timeout=10)


@pytest.fixture
def settings() -> Settings:
    return Settings(models=MODELS, max_upload=2**20, max_pixels=500_000, max_images=6)


@pytest.fixture
def make_client(small_matcher: Callable[[str], Matcher]) -> Iterator[Callable[..., TestClient]]:
    clients = []

    def make(
        settings: Settings,
        host: str = "localhost",
        opener: Callable[[str], Matcher] = small_matcher,
        index: Any = None,
        **options: Any,
    ) -> TestClient:
        clients.append(TestClient(create_app(settings, opener, index), base_url=f"http://{host}", **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(make_client: Callable[..., TestClient], settings: Settings) -> TestClient:
    return make_client(settings)


def picture(seed: int = 0, size: tuple[int, int] = (60, 80)) -> np.ndarray:
    """Smooth random colours ``(H, W, 3)``."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((size[1], size[0]), Image.Resampling.BICUBIC))


def encode(pixels: np.ndarray, form: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, form)
    return stream.getvalue()


@pytest.fixture
def image_file() -> Callable[..., bytes]:
    """The bytes of an image file: ``image_file(seed, size, form)``."""
    return lambda seed=0, size=(60, 80), form="PNG": encode(picture(seed, size), form)


@pytest.fixture
def send(client: TestClient, image_file: Callable[..., bytes]) -> Callable[..., str]:
    """Upload an image and give its token."""

    def upload(seed: int = 0, size: tuple[int, int] = (60, 80), to: TestClient = client) -> str:
        answer = to.post("/api/images", files={"file": ("picture.png", image_file(seed, size))})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    return upload
