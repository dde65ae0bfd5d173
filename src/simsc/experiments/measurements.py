"""Measurements of trained and pre-trained models, kept beside the run so that nothing is measured twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from simsc._version import __version__
from simsc.data.records import ImageRef
from simsc.evaluation.benchmark import evaluate_model
from simsc.evaluation.cache import TrunkCache, trunk_fingerprint
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.protocol import Protocol, find_protocol
from simsc.experiments.tables import Target
from simsc.files import cache_folder, sha256, write_json
from simsc.matching.features import Features
from simsc.models.model import SimSC
from simsc.models.trained import Trained
from simsc.training.config import Config
from simsc.training.run_folder import RunFolder


@dataclass(frozen=True)
class Subject:
    """A model to measure.

    Attributes:
        config: what it was trained with, or would have been.
        folder: its run, or where the measurements of a backbone as it was pre-trained are kept.
        trained: whether ``folder`` holds a trained model.
    """

    config: Config
    folder: RunFolder
    trained: bool = True

    def load(self) -> Trained:
        """The model, in evaluation mode."""
        if self.trained:
            return Trained.open(self.folder.best)
        # Split as in training, so that trunk outputs are shared with the trained models.
        before = {"temperature": "fixed:1", "head": "none", "normalize": True, "start": ""}
        model = Trained.begin({**self.config.to_dict(), **before})
        model.network.eval()
        return model

    def label(self, name: str) -> str:
        """How a table calls this model: ``name``, and whether its training diverged before its last epoch."""
        result = self.folder.result
        stopped = self.trained and "stopped" in json.loads(result.read_text(encoding="utf-8"))
        return f"{name}, stopped early" if stopped else name

    def identity(self) -> str:
        """Changes when the weights change."""
        file = self.folder.best if self.trained else Path(self.config.weights)
        if not file.is_file():
            return f"{self.config.backbone} {self.config.weights}"
        return _digest(file, file.stat().st_mtime_ns)


def pretrained(config: Config, base: Path) -> Subject:
    """The backbone of a configuration before any training."""
    words = f"{config.backbone}-{Path(config.weights).stem}-{config.seed if config.weights == 'random' else ''}"
    name = words.strip("-").replace(":", "").replace("/", "_")
    return Subject(config, RunFolder(base / "pretrained" / name), trained=False)


class KeepingEncoder(ImageEncoder):
    """Keeps the features of every image, for sweeps that ask for them many times."""

    kept: dict[str, Features]

    def stream(self, refs: Sequence[ImageRef]) -> Iterator[tuple[ImageRef, Features]]:
        """Features of many images; each is encoded once in the life of this object."""
        self.kept = getattr(self, "kept", {})
        missing = [ref for ref in refs if ref.key not in self.kept]
        self.kept.update({ref.key: features for ref, features in super().stream(missing)})
        for ref in refs:
            yield ref, self.kept[ref.key]


class Meter:
    """Measures PCK and temperatures.

    Args:
        root: folder that holds the data sets; None looks in the usual places.
        trunk: where models share the outputs of a frozen trunk: ``memory`` (for small data sets), ``disk`` (where
            trainings with ``cache=disk`` keep theirs), or ``none``.
    """

    def __init__(self, root: Path | None = None, trunk: str = "none") -> None:
        self.root, self.trunk = root, trunk
        self._caches: dict[str, TrunkCache] = {}
        self._loaded: tuple[str, Trained] | None = None

    def measure(
        self, subject: Subject, target: Target, *, temperature: float | None = None, protocol: str | None = None
    ) -> dict[str, Any]:
        """The result of :func:`simsc.evaluation.benchmark.evaluate_model`.

        Args:
            subject: the model.
            target: the test split.
            temperature: a fixed effective temperature instead of the model's own (with its ``beta_eval``).
            protocol: by default that of the paper, at the image size of the training.
        """
        return self._measure(subject, target, [temperature], protocol or protocol_name(subject.config))[0]

    def sweep(self, subject: Subject, target: Target, temperatures: Sequence[float]) -> list[dict[str, Any]]:
        """One result per temperature; every image is encoded once."""
        return self._measure(subject, target, temperatures, protocol_name(subject.config))

    def encoder(self, model: SimSC, protocol: str, keep: bool = False) -> ImageEncoder:
        """Encodes images for a model, with the trunk outputs that other models have left."""
        rules = find_protocol(protocol)
        return (KeepingEncoder if keep else ImageEncoder)(model, rules, self._cache(model, rules))

    def _cache(self, model: SimSC, rules: Protocol) -> TrunkCache | None:
        """Shared trunk outputs, of images resized to a square as in training: files are named by side and content."""
        if self.trunk == "none" or rules.view != "square" or model.trainable == "all":
            return None
        fingerprint = trunk_fingerprint(model, rules.side)
        if fingerprint not in self._caches:
            folder = cache_folder() / "trunk" if self.trunk == "disk" else None
            self._caches[fingerprint] = TrunkCache(folder=folder, fingerprint=fingerprint)
        return self._caches[fingerprint]

    def load(self, subject: Subject) -> Trained:
        """The model; the last one stays loaded, for it is usually measured on several data sets."""
        identity = f"{subject.identity()} {subject.trained}"
        if self._loaded is None or self._loaded[0] != identity:
            self._loaded = identity, subject.load()
        return self._loaded[1]

    def _measure(
        self, subject: Subject, target: Target, temperatures: Sequence[float | None], protocol: str
    ) -> list[dict[str, Any]]:
        files = [self._file(subject, target, protocol, each) for each in temperatures]
        missing = [each for each, file in zip(temperatures, files, strict=True) if not file.exists()]
        if missing:
            self._evaluate(subject, target, missing, protocol)
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def _evaluate(self, subject: Subject, target: Target, temperatures: Sequence[float | None], protocol: str) -> None:
        model = self.load(subject)
        encoder = self.encoder(model.network, protocol, keep=len(temperatures) > 1)
        for each in temperatures:
            result, _ = evaluate_model(
                model, target.data, self.root, target.split, protocol, localizer=subject.config.localizer,
                beta_eval=subject.config.beta_eval if each is None else None, temperature=each, encoder=encoder,
            )  # fmt: skip
            if each is not None:
                result["temperature"] = {"mean": each, "std": 0.0}
            write_json(self._file(subject, target, protocol, each), result)

    def _file(self, subject: Subject, target: Target, protocol: str, temperature: float | None) -> Path:
        """Named by everything the result depends on."""
        own = ["own", subject.config.beta_eval] if temperature is None else ["fixed", temperature]
        key = [subject.identity(), str(self.root), protocol, subject.config.localizer, *own, __version__]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
        return subject.folder.path / "measurements" / f"{target.data}-{target.split}-{digest}.json"


@lru_cache(maxsize=256)
def _digest(file: Path, changed: int) -> str:  # noqa: ARG001 - a changed file is read again
    return sha256(file)


def protocol_name(config: Config) -> str:
    """The paper's protocol at the image size of the training.

    >>> protocol_name(Config(image_size=252))
    'paper-256@252'
    """
    return find_protocol("paper-256", config.image_size).name
