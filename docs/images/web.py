"""Take the screenshots of the web page: ``python docs/images/web.py [model ...]`` (needs Chromium and playwright)."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import sync_playwright

from simsc.web.app import create_app
from simsc.web.catalogue import offered_models
from simsc.web.settings import Settings

FOLDER = Path(__file__).parent
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def serve(models: list[str]) -> str:
    """Start a server in this process and give its address."""
    app = create_app(Settings(models=offered_models(models)))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def open_sample(browser: Any, address: str, sample: str, point: int, **options: Any) -> Any:
    """A page with all key-points of a sample, one of them selected."""
    page = browser.new_page(**options)
    page.set_default_timeout(120_000)
    page.goto(address)
    page.click(f"[data-name={sample}]")
    page.wait_for_selector("[data-side=source][aria-busy=false] .frame")
    page.wait_for_selector("[data-side=target] .frame")
    page.click("#keypoints")
    page.wait_for_selector("#target-stage .point")
    page.click(f"#points tbody tr >> nth={point}")
    page.wait_for_load_state("networkidle")
    return page


def main() -> None:
    """Light with the heat-map, dark with the warped source."""
    address = serve(sys.argv[1:])
    wide = {"viewport": {"width": 1440, "height": 900}}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = open_sample(browser, address, "car", 3, **wide)
        page.screenshot(path=FOLDER / "web.png")
        dark = open_sample(browser, address, "aeroplane", 0, color_scheme="dark", **wide)
        dark.check("[value=warp]")
        dark.wait_for_selector(".warp:not([hidden])")
        dark.screenshot(path=FOLDER / "web-dark.png")
        browser.close()


if __name__ == "__main__":
    main()
