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
WIDE: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
TELEPHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 1.5,
    "has_touch": True,
    "is_mobile": True,
}


def serve(models: list[str]) -> str:
    """Start a server in this process and give its address."""
    app = create_app(Settings(models=offered_models(models)))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def open_sample(browser: Any, address: str, sample: str, point: str, **options: Any) -> Any:
    """A page with all key-points of a sample, one of them selected by its name."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(120_000)
    page.goto(address)
    page.click(f"[data-name={sample}]")
    page.wait_for_selector("[data-side=source][aria-busy=false] .frame")
    page.wait_for_selector("[data-side=target] .frame")
    page.click("#keypoints")
    page.wait_for_selector("#target-stage .point")
    names = page.locator("#points input").evaluate_all("all => all.map(each => each.value)")
    page.locator("#points .swatch").nth(names.index(point)).click()
    page.wait_for_load_state("networkidle")
    return page


def take_others(page: Any) -> None:
    """Fill the wall with the sample's other pictures, and wait until all are matched."""
    page.click("#many-sample")
    page.wait_for_load_state("networkidle")
    page.wait_for_selector("#wall .object >> nth=3")
    for card in page.locator("#wall .object").all():
        card.locator(".dot").first.wait_for()
    page.wait_for_timeout(1500)


def main() -> None:
    """Light with the heat-map, dark with the warped source, the wall of targets, and a telephone."""
    address = serve(sys.argv[1:])
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = open_sample(browser, address, "donkey", "back", **WIDE)
        page.screenshot(path=FOLDER / "web.png")
        take_others(page)
        page.locator("#many").screenshot(path=FOLDER / "web-many.png")
        dark = open_sample(browser, address, "horse", "nose", color_scheme="dark", **WIDE)
        dark.check("[value=warp]")
        dark.wait_for_selector(".warp:not([hidden])")
        dark.screenshot(path=FOLDER / "web-dark.png")
        small = open_sample(browser, address, "crow", "beak", **TELEPHONE)
        small.evaluate("scrollTo(0, 0)")
        small.screenshot(path=FOLDER / "web-telephone.png")
        browser.close()


if __name__ == "__main__":
    main()
