"""Models and their answers: each image is encoded once per model, one computation at a time."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import torch

from simsc.coordinates import Size
from simsc.matcher import DenseFlow, EncodedImage, Matcher, MatchResult
from simsc.matching.features import Features
from simsc.models.temperature import learns
from simsc.web.schemas import Busy, NotFound
from simsc.web.settings import Settings
from simsc.web.store import ImageStore, StoredImage

Opener = Callable[[str], Matcher]


@dataclass(frozen=True)
class Query:
    """How to match: a label of the catalogue, a localiser, and a temperature or None for the model's own."""

    model: str
    localizer: str = "kernel-soft-argmax"
    temperature: float | None = None


@dataclass(frozen=True)
class Answer:
    """Matches of points.

    Attributes:
        result: of :meth:`simsc.Matcher.match`.
        model_temperature: the model's own effective temperature for the pair.
        learned: whether that was learned.
        cells: ``(h, w)`` of the score maps.
        scores: ``(n, h, w)`` similarities before any temperature, if asked for.
    """

    result: MatchResult
    model_temperature: float
    learned: bool
    cells: Size
    scores: np.ndarray | None


class Engine:
    """Answers questions about stored images.

    Args:
        settings: models on offer, and limits.
        store: told when an image has grown by its features.
        opener: loads a model, for example ``simsc.load``.
    """

    def __init__(self, settings: Settings, store: ImageStore, opener: Opener) -> None:
        self.settings, self.store, self.opener = settings, store, opener
        self._matchers: OrderedDict[str, Matcher] = OrderedDict()
        # One at a time: the network already uses every core, and memory stays that of one request.
        self._turn = threading.Lock()

    def match(
        self, source: StoredImage, target: StoredImage, points: np.ndarray, query: Query, *, scores: bool = False
    ) -> Answer:
        """Where points ``(n, 2)`` of the source lie in the target."""
        with self._taking_turns():
            matcher, first, second = self._prepare(source, target, query)
            own = _temperature(matcher, first, second)
            pair = _at_temperature(matcher, first, second, query.temperature)
            with _one_thread():
                result = matcher.match(*pair, points)
                similarities = _similarities(result) if scores else None
            return Answer(
                result=result,
                model_temperature=own,
                learned=learns(matcher.model.temperature_name),
                cells=second.features.map_size,
                scores=similarities,
            )

    def dense(self, source: StoredImage, target: StoredImage, query: Query, sizes: tuple[Size, Size]) -> DenseFlow:
        """The dense match, in pixels of the two images as if they had ``sizes``."""
        with self._taking_turns():
            matcher, first, second = self._prepare(source, target, query)
            pair = _at_temperature(matcher, first, second, query.temperature)
            return matcher.dense(*(_resized(image, size) for image, size in zip(pair, sizes, strict=True)))

    def encode(self, image: StoredImage, model: str) -> None:
        """Run a model on an image now, so that the first question is answered at once."""
        with self._taking_turns():
            self._encoded(image, model)

    def default_model(self) -> str:
        """Label of the model used when none is named."""
        return next(iter(self.settings.models))

    def _prepare(
        self, source: StoredImage, target: StoredImage, query: Query
    ) -> tuple[Matcher, EncodedImage, EncodedImage]:
        first, second = self._encoded(source, query.model), self._encoded(target, query.model)
        matcher = copy.copy(self._matcher(query.model))
        matcher.localizer = query.localizer
        return matcher, first, second

    def _encoded(self, image: StoredImage, model: str) -> EncodedImage:
        if model not in self.settings.models:
            raise NotFound(f"unknown model '{model}'; offered: {', '.join(self.settings.models)}")
        if model not in image.encodings:
            image.encodings[model] = self._matcher(model).encode(image.pixels)
            self.store.trim()
        return image.encodings[model]

    def _matcher(self, model: str) -> Matcher:
        if model not in self._matchers:
            while len(self._matchers) >= self.settings.loaded_models:
                self._matchers.popitem(last=False)
            self._matchers[model] = self.opener(self.settings.models[model])
        self._matchers.move_to_end(model)
        return self._matchers[model]

    @contextmanager
    def _taking_turns(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=self.settings.patience):
            raise Busy("the server is busy; try again in a moment")
        try:
            yield
        finally:
            self._turn.release()


@contextmanager
def _one_thread() -> Iterator[None]:
    """A few points are too little work to share: on a busy machine, threads would mostly wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _temperature(matcher: Matcher, first: EncodedImage, second: EncodedImage) -> float:
    """What the matcher divides similarities by: both images' temperatures, and its own for evaluation."""
    return float(first.features.temperature * second.features.temperature) * matcher.beta_eval


def _at_temperature(
    matcher: Matcher, first: EncodedImage, second: EncodedImage, wanted: float | None
) -> tuple[EncodedImage, EncodedImage]:
    """The pair with its temperatures scaled so that the effective one is ``wanted``."""
    if wanted is None:
        return first, second
    factor = sqrt(wanted / _temperature(matcher, first, second))
    return _scaled(first, factor), _scaled(second, factor)


def _scaled(image: EncodedImage, factor: float) -> EncodedImage:
    def scale(features: Features) -> Features:
        return replace(features, beta=features.beta * factor)

    flipped = None if image.flipped is None else scale(image.flipped)
    return replace(image, features=scale(image.features), flipped=flipped)


def _resized(image: EncodedImage, size: Size) -> EncodedImage:
    """The same features for the image as if it had been given at ``size``."""
    return replace(image, frame=replace(image.frame, original=size))


@torch.inference_mode()
def _similarities(result: MatchResult) -> np.ndarray:
    return (result.scorer(result.cells[None])[0] * result.temperature).cpu().numpy()
