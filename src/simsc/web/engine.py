"""Models and their answers: each image is encoded once per model, one computation at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch

from simsc.coordinates import Size
from simsc.matcher import DenseFlow, EncodedImage, Matcher, MatchResult
from simsc.matching.mirror import Mirror
from simsc.models.temperature import learns
from simsc.web.schemas import NotFound
from simsc.web.settings import Settings
from simsc.web.store import ImageStore, StoredImage
from simsc.web.turns import CLICK, DENSE, ENCODE, Turns

Opener = Callable[[str], Matcher]
SMOOTH = 1.5
"""Cells over which a dense match is averaged."""


@dataclass(frozen=True)
class Query:
    """How to match: a label of the catalogue; localiser and temperature are the model's own where None.

    ``mirror`` is that of :meth:`simsc.Matcher.match`.
    """

    model: str
    localizer: str | None = None
    temperature: float | None = None
    mirror: Mirror = "no"


@dataclass(frozen=True)
class Answer:
    """Matches of points.

    Attributes:
        result: of :meth:`simsc.Matcher.match`.
        localizer: that was used.
        model_temperature: the model's own effective temperature for the pair.
        learned: whether that was learned.
        calibrated: whether confidence is a probability that the match is right.
        cells: ``(h, w)`` of the score maps.
        scores: ``(n, h, w)`` similarities before any temperature, if asked for.
    """

    result: MatchResult
    localizer: str
    model_temperature: float
    learned: bool
    calibrated: bool
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
        self.turns = Turns(settings.patience, settings.max_waiting)

    def match(
        self, source: StoredImage, target: StoredImage, points: np.ndarray, query: Query, *, scores: bool = False
    ) -> Answer:
        """Where points ``(n, 2)`` of the source lie in the target."""
        self._encode_first(source, target, query)
        with self.turns.turn(CLICK):
            matcher, first, second = self._prepare(source, target, query)
            localizer = query.localizer or matcher.localizer
            with _one_thread():
                result = matcher.match(
                    first, second, points, localizer=localizer, temperature=query.temperature, mirror=query.mirror
                )
                similarities = _similarities(result) if scores else None
            return Answer(
                result=result,
                localizer=localizer,
                model_temperature=matcher.temperature(first, second),
                learned=learns(matcher.model.temperature_name),
                calibrated=matcher.trained.calibration is not None,
                cells=second.features.map_size,
                scores=similarities,
            )

    def dense(self, source: StoredImage, target: StoredImage, query: Query, sizes: tuple[Size, Size]) -> DenseFlow:
        """The dense match, smoothed so that neighbours stay together, in pixels of images as if of ``sizes``."""
        self._encode_first(source, target, query)
        with self.turns.turn(DENSE):
            matcher, first, second = self._prepare(source, target, query)
            pair = (_resized(image, size) for image, size in zip((first, second), sizes, strict=True))
            return matcher.dense(
                *pair,
                localizer=query.localizer,
                temperature=query.temperature,
                mirror=query.mirror,
                smooth=SMOOTH,
            )

    def encode(self, image: StoredImage, model: str) -> None:
        """Run a model on an image now, so that the first question is answered at once."""
        with self.turns.turn(ENCODE):
            self._encoded(image, model)

    def _encode_first(self, source: StoredImage, target: StoredImage, query: Query) -> None:
        """Encode what a pair lacks, each image in a turn of its own, so that short questions come in between."""
        for image in (source, target):
            if query.model not in image.encodings:
                self.encode(image, query.model)
        if query.mirror != "no" and source.encodings[query.model].flipped is None:
            with self.turns.turn(ENCODE):
                self._mirrored(source, query.model)

    def default_model(self) -> str:
        """Label of the model used when none is named."""
        return next(iter(self.settings.models))

    def _prepare(
        self, source: StoredImage, target: StoredImage, query: Query
    ) -> tuple[Matcher, EncodedImage, EncodedImage]:
        encode = self._encoded if query.mirror == "no" else self._mirrored
        first, second = encode(source, query.model), self._encoded(target, query.model)
        return self._matcher(query.model), first, second

    def _encoded(self, image: StoredImage, model: str) -> EncodedImage:
        if model not in self.settings.models:
            raise NotFound(f"unknown model '{model}'; offered: {', '.join(self.settings.models)}")
        if model not in image.encodings:
            image.encodings[model] = self._matcher(model).encode(image.pixels)
            self.store.trim()
        return image.encodings[model]

    def _mirrored(self, image: StoredImage, model: str) -> EncodedImage:
        """As :meth:`_encoded`, with the mirror image, which is added where it is missing."""
        encoded = self._encoded(image, model)
        if encoded.flipped is None:
            other = self._matcher(model).encode(np.ascontiguousarray(image.pixels[:, ::-1]))
            encoded = image.encodings[model] = replace(encoded, flipped=other.features)
            self.store.trim()
        return encoded

    def _matcher(self, model: str) -> Matcher:
        if model not in self._matchers:
            while len(self._matchers) >= self.settings.loaded_models:
                self._matchers.popitem(last=False)
            self._matchers[model] = self.opener(self.settings.models[model])
        self._matchers.move_to_end(model)
        return self._matchers[model]


@contextmanager
def _one_thread() -> Iterator[None]:
    """A few points are too little work to share: on a busy machine, threads would mostly wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _resized(image: EncodedImage, size: Size) -> EncodedImage:
    """The same features for the image as if it had been given at ``size``."""
    return replace(image, frame=replace(image.frame, original=size))


@torch.inference_mode()
def _similarities(result: MatchResult) -> np.ndarray:
    return (result.scorer(result.cells[None])[0] * result.temperature).cpu().numpy()
