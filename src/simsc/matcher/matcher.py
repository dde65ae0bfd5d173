"""``simsc.load()`` -> :class:`Matcher`: from your own two images to corresponding points."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simsc.devices import pick_device
from simsc.errors import ConfigError, unknown_name
from simsc.images import read_image
from simsc.matcher.encoded import EncodedImage, Encoder, ImageLike, View, encode_images
from simsc.matcher.flow import DenseFlow, dense_flow
from simsc.matcher.pairing import PairScorer, check_query, find_points, to_cells
from simsc.matcher.results import MatchResult
from simsc.matching import LOCALIZERS
from simsc.models.model import SimSC
from simsc.models.trained import Trained

RUNTIMES = ("torch", "onnx")


def load(model: str | Path | SimSC | Trained | None = None, **options: Any) -> Matcher:
    """A matcher.

    Args:
        model: None for the packaged model, the name of a packaged model, a model file, a run folder, the name of a
            backbone (its pre-trained features), also with a head (``resnet50+hpf``), or a model in memory.
        options: of :class:`Matcher`.
    """
    if isinstance(model, SimSC | Trained):
        return Matcher(model, **options)
    return Matcher(Trained.open(model).ready(), **options)  # nobody else holds it: it need not be copied


class Matcher:
    """Finds corresponding points between two images.

    Images are paths, bytes, PIL images, arrays or tensors of any size (see :func:`simsc.images.read_image`), or what
    :meth:`encode` returned. Points are ``(x, y)`` in pixels of the image as shown.

    Args:
        model: it is copied and left untouched, unless it is ready for inference already.
        size: side of the square that images are resized to or, with ``keep_aspect``, length of their longer side;
            None for the size the model was trained at, or its backbone is used at. Rounded to the network's stride.
        keep_aspect: keep the images' aspect ratios instead of resizing to a square.
        flip: flipped ensemble: match the mirrored pair too and average the score maps; twice the time.
        localizer: one of :data:`simsc.matching.LOCALIZERS`; None for the model's own.
        beta_eval: temperature that scores are divided by, for models that have not learned one; None for the one that
            is stored with the model.
        device: ``auto``, ``cpu``, ``cuda``, ``mps``.
        runtime: ``torch``, or ``onnx`` to run the network on ONNX Runtime (needs the extra ``export``).
    """

    def __init__(
        self,
        model: SimSC | Trained,
        *,
        size: int | None = None,
        keep_aspect: bool = False,
        flip: bool = False,
        localizer: str | None = None,
        beta_eval: float | None = None,
        device: str = "auto",
        runtime: str = "torch",
    ) -> None:
        trained = Trained.of(model)
        self.localizer = localizer or trained.localizer
        self.beta_eval = trained.beta_eval if beta_eval is None else beta_eval
        if self.localizer not in LOCALIZERS:
            raise ConfigError(unknown_name("localizer", self.localizer, LOCALIZERS))
        if not self.beta_eval > 0:
            raise ConfigError(f"beta_eval = {beta_eval} is not allowed; allowed: above 0")
        self.device = pick_device(device)
        self.trained = trained.copy().ready(self.device)
        self.model = self.trained.network
        stride, convention = self.model.backbone.stride, self.model.convention
        self.view = View(size or trained.image_size, stride, keep_aspect, convention)
        self.flip, self.runtime = flip, runtime
        self._encoder = self._build_encoder(runtime)

    @torch.inference_mode()
    def encode(self, image: ImageLike | EncodedImage) -> EncodedImage:
        """Run the network on an image once, to match it many times."""
        return self._encode([image])[0]

    @torch.inference_mode()
    def encode_many(self, images: Sequence[ImageLike | EncodedImage]) -> list[EncodedImage]:
        """:meth:`encode` for several images, those of equal input size in one batch."""
        return self._encode(list(images))

    @torch.inference_mode()
    def match(
        self,
        source: ImageLike | EncodedImage,
        target: ImageLike | EncodedImage,
        points: Any,
        *,
        min_confidence: float | None = None,
        max_cycle: float | None = None,
    ) -> MatchResult:
        """Where points ``(n, 2)`` of the source lie in the target.

        Args:
            source, target: the images.
            points: xy in pixels of the source as shown; refused if outside of it.
            min_confidence: matches of less confidence count as unmatched.
            max_cycle: so do matches that lead back to a place further than so many pixels of the source away.
        """
        first, second = self._encode([source, target])
        return self._match(first, second, check_query(points, first.size), min_confidence, max_cycle)

    @torch.inference_mode()
    def match_many(
        self,
        source: ImageLike | EncodedImage,
        targets: Iterable[ImageLike | EncodedImage],
        points: Any,
        *,
        min_confidence: float | None = None,
        max_cycle: float | None = None,
        batch_size: int = 8,
    ) -> Iterator[MatchResult]:
        """:meth:`match` of one source with many targets, in their order; targets are encoded in batches."""
        first = self.encode(source)
        query = check_query(points, first.size)
        remaining = iter(targets)
        while batch := list(islice(remaining, batch_size)):
            for second in self._encode(batch):
                yield self._match(first, second, query, min_confidence, max_cycle)

    @torch.inference_mode()
    def dense(
        self,
        source: ImageLike | EncodedImage,
        target: ImageLike | EncodedImage,
        *,
        density: int = 1,
        smooth: float = 0.0,
        max_cycle: float | None = None,
    ) -> DenseFlow:
        """For every pixel of the target where it comes from in the source, with confidence and cycle error.

        Args:
            source, target: the images.
            density: queries per cell along each side; between them positions are interpolated.
            smooth: average neighbouring shifts with a Gaussian of so many cells, weighted by their confidence and
                cycle error; 0 leaves each match as it is, 1.5 makes warped pictures calm.
            max_cycle: limit of the cycle mask in pixels of the target; None for a tenth of its larger side.
        """
        if density < 1 or smooth < 0:
            raise ConfigError(f"density = {density} and smooth = {smooth}: expected at least 1 and at least 0")
        first, second = self._encode([source, target])
        return dense_flow(
            self._scorer(first, second),
            self._scorer(second, first),
            localizer=self.localizer,
            density=density,
            smooth=smooth,
            max_cycle=max_cycle,
        )

    def _match(
        self,
        source: EncodedImage,
        target: EncodedImage,
        points: np.ndarray,
        min_confidence: float | None,
        max_cycle: float | None,
    ) -> MatchResult:
        scorer = self._scorer(source, target)
        found = find_points(scorer, points, self.localizer)
        back = find_points(self._scorer(target, source), found.points, self.localizer)
        error = np.linalg.norm(back.points - points, axis=1)
        matched = np.ones(len(points), dtype=bool)
        if min_confidence is not None:
            matched &= found.confidence >= min_confidence
        if max_cycle is not None:
            matched &= error <= max_cycle
        return MatchResult(
            source_points=points,
            points=found.points,
            confidence=found.confidence,
            cycle_error=error,
            matched=matched,
            temperature=scorer.temperature,
            source_size=source.size,
            target_size=target.size,
            convention=target.frame.convention,
            scorer=scorer,
            cells=to_cells(source, points),
        )

    def _scorer(self, source: EncodedImage, target: EncodedImage) -> PairScorer:
        return PairScorer(self.model, source, target, self.beta_eval)

    def _encode(self, images: list[Any]) -> list[EncodedImage]:
        """Encode what is not encoded yet, in one batch where sizes agree."""
        raw = [index for index, image in enumerate(images) if not isinstance(image, EncodedImage)]
        pixels = [read_image(images[index]) for index in raw]
        fresh = encode_images(self._encoder, pixels, self.view, self.device, flip=self.flip)
        done = dict(zip(raw, fresh, strict=True))
        return [done.get(index, image) for index, image in enumerate(images)]

    def _build_encoder(self, runtime: str) -> Encoder:
        if runtime == "torch":
            return self.model.encode
        if runtime == "onnx":
            from simsc.export.runtime import OnnxEncoder

            # On the CPU: tracing there leaves the model on the matcher's device untouched.
            return OnnxEncoder(copy.deepcopy(self.model).cpu())
        raise ConfigError(unknown_name("runtime", runtime, RUNTIMES))
