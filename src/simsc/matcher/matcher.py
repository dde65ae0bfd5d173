"""``simsc.load()`` -> :class:`Matcher`: from your own two images to corresponding points."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from simsc.devices import pick_device
from simsc.errors import ConfigError, SimscError, unknown_name
from simsc.images import read_image
from simsc.matcher.encoded import EncodedImage, Encoder, ImageLike, PairScorer, View, encode_images, pair_temperature
from simsc.matcher.flow import DenseFlow, dense_flow
from simsc.matcher.queries import check_query, names_of
from simsc.matcher.results import MatchResult
from simsc.matching import LOCALIZERS
from simsc.matching.mirror import Mirror, check_mirror, suits_better
from simsc.matching.signals import cycle_signal
from simsc.models.calibration import Calibration
from simsc.models.model import SimSC
from simsc.models.trained import Trained

RUNTIMES = ("torch", "onnx")


class Trust(NamedTuple):
    """What is known about the quality of matches: confidence ``(n,)``, status ``(n,)`` and signals ``(n, k)``."""

    confidence: np.ndarray
    status: np.ndarray
    signals: np.ndarray


def judge(
    calibration: Calibration | None, signals: np.ndarray, error: np.ndarray, side: float | np.ndarray, peak: np.ndarray
) -> Trust:
    """How far matches can be trusted.

    Args:
        calibration: of the model; without one, confidence is the peak probability and no match is sure.
        signals: ``(n, 4)`` of their score maps, or 11 of a model that heeds coherence.
        error: ``(n,)`` cycle errors in pixels of a source, or of ``n`` sources, whose larger side is ``side``.
        peak: ``(n,)`` peak probabilities.
    """
    signals = np.column_stack([signals, cycle_signal(torch.from_numpy(error / side), 1.0).numpy()])
    if calibration is None:
        return Trust(peak, np.full(len(peak), "unsure"), signals)
    right, present = calibration.probabilities(signals)
    return Trust(right, calibration.status(right, present), signals)


def load(model: str | Path | SimSC | Trained | None = None, **options: Any) -> Matcher:
    """A matcher.

    Args:
        model: None for the packaged model, the name of a packaged model, a model file, a run folder, the name of a
            backbone (its pre-trained features), also with a head (``resnet50+hpf``), or a model in memory.
        options: of :class:`Matcher`.
    """
    if isinstance(model, SimSC | Trained):
        return Matcher(model, **options)
    device, precision = pick_device(options.get("device", "auto")), options.get("precision", "float32")
    return Matcher(Trained.open(model).ready(device, precision), **options)  # nobody else holds it: it is not copied


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
        coherent: heed the matches around a point, see :mod:`simsc.matching.coherence`; None for the model's own choice.
        beta_eval: temperature that scores are divided by, for models that have not learned one; None for the one that
            is stored with the model.
        device: ``auto``, ``cpu``, ``cuda``, ``mps``.
        precision: what the network computes in: ``float32``, ``bf16``, or ``auto`` for bf16 where the device is quick
            with it; a model that is ready for inference keeps its own.
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
        coherent: bool | None = None,
        beta_eval: float | None = None,
        device: str = "auto",
        precision: str = "float32",
        runtime: str = "torch",
    ) -> None:
        trained = Trained.of(model)
        self.localizer = localizer or trained.localizer
        self.beta_eval = trained.beta_eval if beta_eval is None else beta_eval
        _ = LOCALIZERS[self.localizer]  # a misspelt one is refused now
        if not self.beta_eval > 0:
            raise ConfigError(f"beta_eval = {beta_eval} is not allowed; allowed: above 0")
        self.device = pick_device(device)
        trained = trained.copy()
        if coherent is not None and coherent != trained.card.coherent:  # it then looks at other signals
            trained = trained.described(coherent=coherent, calibration=None)
        self.trained = trained.ready(self.device, precision)
        self.model = self.trained.network
        stride, convention = self.model.backbone.stride, self.model.convention
        self.view = View(size or trained.image_size, stride, keep_aspect, convention)
        self.flip, self.runtime = flip, runtime
        self._encoder = self._build_encoder(runtime)

    @torch.inference_mode()
    def encode(self, image: ImageLike | EncodedImage, *, mirror: bool = False) -> EncodedImage:
        """Run the network on an image once, to match it many times; with ``mirror``, on its mirror image too."""
        return self._encode([image], mirror)[0]

    @torch.inference_mode()
    def encode_many(self, images: Sequence[ImageLike | EncodedImage], *, mirror: bool = False) -> list[EncodedImage]:
        """:meth:`encode` for several images, those of equal input size in one batch."""
        return self._encode(list(images), mirror)

    @torch.inference_mode()
    def match(
        self,
        source: ImageLike | EncodedImage,
        target: ImageLike | EncodedImage,
        points: Any,
        *,
        min_confidence: float | None = None,
        max_cycle: float | None = None,
        localizer: str | None = None,
        temperature: float | None = None,
        mirror: Mirror = "no",
    ) -> MatchResult:
        """Where points ``(n, 2)`` of the source lie in the target.

        Args:
            source, target: the images.
            points: xy in pixels of the source as shown, an array, a list, or a dictionary of names, which the result
                then knows; refused if outside of the source.
            min_confidence: matches of less confidence count as unmatched.
            max_cycle: so do matches that lead back to a place further than so many pixels of the source away.
            localizer: for this call; None for the matcher's.
            temperature: a fixed effective temperature for this call, in the place of the model's own and its
                evaluation temperature.
            mirror: ``yes`` matches the mirror image of the source, ``auto`` does where that has more in common with
                the target, as in opposite viewpoints. A left part is then found where its mirror image suits best:
                at the right one. The result says whether the mirror was used. One more forward pass; an encoded
                source needs :meth:`encode` with ``mirror``.
        """
        first, second = self._encode_pair(source, target, mirror)
        query = check_query(points, first.size)
        result = self._match(first, second, query, min_confidence, max_cycle, localizer, temperature, mirror)
        return replace(result, names=names_of(points), images=_pixels_of(source, target))

    @torch.inference_mode()
    def match_many(
        self,
        source: ImageLike | EncodedImage,
        targets: Iterable[ImageLike | EncodedImage],
        points: Any,
        *,
        min_confidence: float | None = None,
        max_cycle: float | None = None,
        localizer: str | None = None,
        temperature: float | None = None,
        mirror: Mirror = "no",
        batch_size: int = 8,
        on_error: str = "raise",
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[MatchResult]:
        """:meth:`match` of one source with many targets, in their order; targets are encoded in batches.

        Args:
            source, targets, points: as in :meth:`match`.
            min_confidence, max_cycle, localizer, temperature, mirror: as in :meth:`match`.
            batch_size: images per forward pass.
            on_error: ``raise``, or ``skip`` to leave out targets that cannot be read; a result's ``index`` tells
                which target it is of.
            progress: told how many targets are done, after each batch.
        """
        if on_error not in ("raise", "skip"):
            raise ConfigError(unknown_name("on_error", on_error, ("raise", "skip")))
        check_mirror(mirror)
        first = self.encode(source, mirror=mirror != "no")
        query, names = check_query(points, first.size), names_of(points)
        remaining = enumerate(targets)
        done = 0
        while batch := list(islice(remaining, batch_size)):
            read = [(index, target, _read(target, on_error == "skip")) for index, target in batch]
            good = [item for item in read if item[2] is not None]
            for (index, target, _), second in zip(good, self._encode([pixels for *_, pixels in good]), strict=True):
                result = self._match(first, second, query, min_confidence, max_cycle, localizer, temperature, mirror)
                yield replace(result, names=names, index=index, images=_pixels_of(source, target))
            done += len(batch)
            if progress:
                progress(done)

    @torch.inference_mode()
    def dense(
        self,
        source: ImageLike | EncodedImage,
        target: ImageLike | EncodedImage,
        *,
        density: int = 1,
        smooth: float = 0.0,
        max_cycle: float | None = None,
        localizer: str | None = None,
        temperature: float | None = None,
        mirror: Mirror = "no",
    ) -> DenseFlow:
        """For every pixel of the target where it comes from in the source, with confidence and cycle error.

        Args:
            source, target: the images.
            density: queries per cell along each side; between them positions are interpolated.
            smooth: average neighbouring shifts with a Gaussian of so many cells, weighted by their confidence and
                cycle error; 0 leaves each match as it is, 1.5 makes warped pictures calm.
            max_cycle: limit of the cycle mask in pixels of the target; None for a tenth of its larger side.
            localizer, temperature, mirror: for this call, as in :meth:`match`.
        """
        if density < 1 or smooth < 0:
            raise ConfigError(f"density = {density} and smooth = {smooth}: expected at least 1 and at least 0")
        first, second = self._encode_pair(source, target, mirror)
        there, back = self._scorers(self._seen(first, second, mirror), second, temperature)
        return dense_flow(
            there, back, localizer=localizer or self.localizer, density=density, smooth=smooth, max_cycle=max_cycle
        )

    def temperature(self, source: EncodedImage, target: EncodedImage) -> float:
        """The effective temperature that a pair has where a call gives none."""
        return pair_temperature(source, target) * self.beta_eval

    def _match(
        self,
        source: EncodedImage,
        target: EncodedImage,
        points: np.ndarray,
        min_confidence: float | None,
        max_cycle: float | None,
        localizer: str | None,
        temperature: float | None,
        mirror: Mirror,
    ) -> MatchResult:
        source = self._seen(source, target, mirror)
        there, back = self._scorers(source, target, temperature)
        cells = source.to_cells(points)
        found = there.locate(cells, localizer or self.localizer)
        returned = back.match(found.points[:, None], localizer or self.localizer)
        error = np.linalg.norm(source.from_cells(returned.points[0, :, 0]) - points, axis=1)
        signals, peak = found.signals, found.peak.cpu().numpy()
        if temperature is not None:  # a calibration knows the model's own: another one is only for the eye
            signals = self._scorers(source, target, None)[0].signals(cells, found.points)
        trust = judge(self.trained.calibration, signals.cpu().numpy(), error, max(source.size), peak)
        confidence, matched = trust.confidence, trust.status != "none"
        if min_confidence is not None:
            matched &= confidence >= min_confidence
        if max_cycle is not None:
            matched &= error <= max_cycle
        return MatchResult(
            source_points=points,
            points=target.from_cells(found.points),
            confidence=confidence,
            cycle_error=error,
            matched=matched,
            status=np.where(matched, trust.status, "none"),
            peak=peak,
            signals=trust.signals,
            temperature=there.temperature if temperature is None else temperature,
            source_size=source.size,
            target_size=target.size,
            convention=target.frame.convention,
            scorer=there,
            cells=cells,
            mirrored=source.mirrored,
        )

    def _scorers(
        self, source: EncodedImage, target: EncodedImage, temperature: float | None
    ) -> tuple[PairScorer, PairScorer]:
        """From the source to the target, and back."""
        beta_eval = self.beta_eval if temperature is None else 1.0
        first, second = source.at_temperature(temperature), target.at_temperature(temperature)
        return PairScorer.both(self.model, first, second, beta_eval, self.flip)

    def _seen(self, source: EncodedImage, target: EncodedImage, mirror: Mirror) -> EncodedImage:
        """The source as it is matched: itself, or its mirror image."""
        if mirror == "no":
            return source
        other = source.in_mirror()
        maps = (each.features.maps[0] for each in (source, other, target))
        return other if mirror == "yes" or suits_better(*maps) else source

    def _encode_pair(self, source: Any, target: Any, mirror: Mirror) -> tuple[EncodedImage, EncodedImage]:
        """Both images, the source with its mirror image where that may be asked for."""
        check_mirror(mirror)
        if mirror == "no" or self.flip:
            first, second = self._encode([source, target])
            return first, second
        return self.encode(source, mirror=True), self.encode(target)

    def _encode(self, images: list[Any], mirror: bool = False) -> list[EncodedImage]:
        """Encode what is not encoded yet, in one batch where sizes agree."""
        raw = [index for index, image in enumerate(images) if not isinstance(image, EncodedImage)]
        pixels = [read_image(images[index]) for index in raw]
        fresh = encode_images(self._encoder, pixels, self.view, self.device, flip=self.flip or mirror)
        done = dict(zip(raw, fresh, strict=True))
        return [done.get(index, image) for index, image in enumerate(images)]

    def _build_encoder(self, runtime: str) -> Encoder:
        if runtime == "torch":
            return self.model.encode
        if runtime == "onnx":
            from simsc.export.runtime import OnnxEncoder

            # Traced on the CPU, by a copy where the matcher's own model is elsewhere.
            return OnnxEncoder(self.model if self.device.type == "cpu" else copy.deepcopy(self.model).cpu())
        raise ConfigError(unknown_name("runtime", runtime, RUNTIMES))


def _pixels_of(*images: Any) -> tuple[Any, Any] | None:
    """Both images as they were given, unless one is encoded and its pixels are gone."""
    source, target = images
    return None if isinstance(source, EncodedImage) or isinstance(target, EncodedImage) else (source, target)


def _read(image: Any, forgive: bool) -> Any:
    """An encoded image as it is, any other as pixels; None of one that cannot be read, if that is forgiven."""
    if isinstance(image, EncodedImage):
        return image
    try:
        return read_image(image)
    except (SimscError, OSError):
        if forgive:
            return None
        raise
