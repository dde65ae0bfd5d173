"""What one running server holds."""

from __future__ import annotations

from dataclasses import dataclass

from simsc.web.engine import Engine, Opener
from simsc.web.settings import Settings
from simsc.web.store import ImageStore


@dataclass(frozen=True)
class Service:
    """Limits, images and models."""

    settings: Settings
    store: ImageStore
    engine: Engine


def build_service(settings: Settings, opener: Opener) -> Service:
    """An empty store and an engine that loads models when they are first asked for."""
    store = ImageStore(settings.max_images, settings.memory)
    return Service(settings, store, Engine(settings, store, opener))
