"""Measurements of trained and pre-trained models on test splits, kept so that nothing is measured twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import simsc
from simsc._version import __version__
from simsc.data.locate import find_root
from simsc.data.records import ImageRef, Pair
from simsc.data.sources import data_fingerprint, dataset_info, load_pairs
from simsc.errors import DataError, SimscError
from simsc.evaluation.benchmark import CLEAN, evaluate_model
from simsc.evaluation.cache import TrunkCache, trunk_fingerprint
from simsc.evaluation.encoder import ImageEncoder
from simsc.evaluation.protocol import Protocol, find_protocol
from simsc.evaluation.scoring import Score, Spread
from simsc.experiments.paper import TITLES
from simsc.files import cache_folder, sha256, write_json
from simsc.matching.features import Features
from simsc.models.model import SimSC
from simsc.models.specs import find_backbone
from simsc.models.trained import Trained
from simsc.models.weights import find_weights
from simsc.reading import read_json
from simsc.training.config import Config
from simsc.training.run_folder import RunFolder

PRETRAINED_KEYS = ("backbone", "weights", "final_norm", "query", "convention")
"""What decides the features and scores of a backbone before training, besides the bytes of its weights."""
_CODE = ("coordinates.py", "frames.py", "images.py", "matching", "models", "data", "scenes", "evaluation")


@dataclass(frozen=True)
class Target:
    """A test split.

    Attributes:
        data: its name in the registry.
        title: heading of its column.
    """

    data: str
    title: str
    split: str = "test"

    @property
    def columns(self) -> list[str]:
        """Its heading, and that of its clean subset where its official split leaks."""
        return [self.title, f"{self.title} clean"] if CLEAN in dataset_info(self.data).splits else [self.title]


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

    @property
    def protocol(self) -> str:
        """The paper's protocol at the image size of the training."""
        return find_protocol("paper-256", self.config.image_size).name

    def load(self) -> Trained:
        """The model, in evaluation mode."""
        if self.trained:
            return Trained.open(self.folder.best)
        # Split as in training, so that trunk outputs are shared with the trained models.
        before = {"temperature": "fixed:1", "head": "none", "normalize": True, "start": ""}
        model = Trained.begin({**self.config.to_dict(), **before})
        model.network.eval()
        return model

    def summary(self) -> dict[str, Any]:
        """What its training left; empty without one."""
        return dict(read_json(self.folder.result, finite=False)) if self.trained else {}

    def label(self, name: str) -> str:
        """How a table calls this model: ``name``, and whether its training diverged before its last epoch."""
        return f"{name}, stopped early" if "stopped" in self.summary() else name

    def identity(self) -> str:
        """Changes when anything changes that decides its features: a trained model's file holds all of that."""
        if self.trained:
            return _file_digest(self.folder.best)
        facts = {key: getattr(self.config, key) for key in PRETRAINED_KEYS}
        if self.config.weights == "random":
            facts["seed"] = self.config.seed
        elif file := _weights_file(self.config):
            facts["weights"] = _file_digest(file)
        return json.dumps(facts, sort_keys=True)


@dataclass(frozen=True)
class Measurement:
    """Figures of a model on a test split, and those of its subsets by name (``clean``, where the split leaks)."""

    score: Score
    subsets: Mapping[str, Score] = field(default_factory=dict)

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Measurement:
        """What :meth:`simsc.evaluation.benchmark.Evaluation.to_dict` gave."""
        subsets = {name: Score.from_dict(part) for name, part in record.get("subsets", {}).items()}
        return Measurement(Score.from_dict(record), subsets)


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
        self._contents: dict[Target, str] = {}
        self._loaded: tuple[str, Trained] | None = None

    def measure(
        self, subject: Subject, target: Target, *, temperature: float | None = None, protocol: str | None = None
    ) -> Measurement:
        """Figures of a model.

        Args:
            subject: the model.
            target: the test split.
            temperature: a fixed effective temperature instead of the model's own (with its ``beta_eval``).
            protocol: by default that of the paper, at the image size of the training.
        """
        return self._measure(subject, target, [temperature], protocol or subject.protocol)[0]

    def sweep(self, subject: Subject, target: Target, temperatures: Sequence[float]) -> list[Score]:
        """Figures at each of some temperatures; every image is encoded once."""
        return [found.score for found in self._measure(subject, target, temperatures, subject.protocol)]

    def encoder(self, model: SimSC, protocol: str, keep: bool = False) -> ImageEncoder:
        """Encodes images for a model, with the trunk outputs that other models have left."""
        rules = find_protocol(protocol)
        return (KeepingEncoder if keep else ImageEncoder)(model, rules, self._cache(model, rules))

    def load(self, subject: Subject) -> Trained:
        """The model; the last one stays loaded, for it is usually measured on several data sets."""
        identity = f"{subject.identity()} {subject.trained}"
        if self._loaded is None or self._loaded[0] != identity:
            self._loaded = identity, subject.load()
        return self._loaded[1]

    def _cache(self, model: SimSC, rules: Protocol) -> TrunkCache | None:
        """Shared trunk outputs, of images resized to a square as in training: files are named by side and content."""
        if self.trunk == "none" or rules.view != "square" or model.trainable == "all":
            return None
        fingerprint = trunk_fingerprint(model, rules.side)
        if fingerprint not in self._caches:
            folder = cache_folder() / "trunk" if self.trunk == "disk" else None
            self._caches[fingerprint] = TrunkCache(folder=folder, fingerprint=fingerprint)
        return self._caches[fingerprint]

    def _measure(
        self, subject: Subject, target: Target, temperatures: Sequence[float | None], protocol: str
    ) -> list[Measurement]:
        files = [self._file(subject, target, protocol, each) for each in temperatures]
        missing = [each for each, file in zip(temperatures, files, strict=True) if not file.exists()]
        if missing:
            self._evaluate(subject, target, missing, protocol)
        return [Measurement.from_dict(read_json(file, finite=False)) for file in files]

    def _evaluate(self, subject: Subject, target: Target, temperatures: Sequence[float | None], protocol: str) -> None:
        model = self.load(subject)
        encoder = self.encoder(model.network, protocol, keep=len(temperatures) > 1)
        for each in temperatures:
            record = evaluate_model(
                model, target.data, self.root, target.split, protocol, localizer=subject.config.localizer,
                beta_eval=subject.config.beta_eval if each is None else None, temperature=each, encoder=encoder,
                workers=None,
            ).to_dict()  # fmt: skip
            if each is not None:
                record["temperature"] = asdict(Spread(each, 0.0))
            write_json(self._file(subject, target, protocol, each), record)

    def _file(self, subject: Subject, target: Target, protocol: str, temperature: float | None) -> Path:
        """Named by everything the result depends on."""
        own = ["own", subject.config.beta_eval] if temperature is None else ["fixed", temperature]
        model = [subject.identity(), subject.config.localizer, *own]
        key = [*model, protocol, self._content(target), __version__, code_digest()]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
        return subject.folder.path / "measurements" / f"{target.data}-{target.split}-{digest}.json"

    def _content(self, target: Target) -> str:
        if target not in self._contents:
            self._contents[target] = _data_digest(load_pairs(target.data, self.root, target.split))
        return self._contents[target]


def pretrained(config: Config, base: Path) -> Subject:
    """The backbone of a configuration before any training."""
    words = f"{config.backbone}-{Path(config.weights).stem}-{config.seed if config.weights == 'random' else ''}"
    name = words.strip("-").replace(":", "").replace("/", "_")
    return Subject(config, RunFolder(base / "pretrained" / name), trained=False)


def targets_for(trained_on: str) -> list[Target]:
    """What the paper measures for a model trained on a data set: its own test split, and the transfers."""
    if trained_on == "pfpascal":
        transfers = {"pfpascal": "pfpascal", "pfwillow": "pfwillow", "spair": "spair_transfer"}
        return [Target(data, TITLES[name]) for data, name in transfers.items()]
    if trained_on == "spair":
        return [Target("spair", TITLES["spair_finetuned"])]
    return [Target(trained_on, dataset_info(trained_on).title)]


def available(targets: Sequence[Target], root: Path | None) -> tuple[list[Target], list[str]]:
    """The targets whose data are on this machine, and a remark for each that is left out."""
    found, notes = [], []
    for target in targets:
        info = dataset_info(target.data)
        try:
            if info.markers:
                find_root(info, root)
            found.append(target)
        except DataError as error:
            notes.append(f"{target.title} is left out: {error}.")
    return found, notes


@cache
def code_digest() -> str:
    """Changes with the source of whatever decides a figure, so that no figure outlives the code that measured it."""
    package = Path(simsc.__file__).parent
    digest = hashlib.sha256()
    for part in _CODE:
        for file in sorted((package / part).rglob("*.py")) or [package / part]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _data_digest(pairs: Sequence[Pair]) -> str:
    """Annotations with boxes, and how large the images' files are: enough to tell copies of a data set apart."""
    boxes = [[box.tolist() for box in (pair.source_box, pair.target_box) if box is not None] for pair in pairs]
    images = {ref.path for pair in pairs for ref in (pair.source, pair.target) if ref.path is not None}
    sizes = sorted((path.name, path.stat().st_size) for path in images)
    return hashlib.sha256(json.dumps([data_fingerprint(pairs), boxes, sizes]).encode()).hexdigest()[:16]


def _weights_file(config: Config) -> Path | None:
    """The file that a backbone's weights are read from, where there is one."""
    if config.weights != "default":
        return Path(config.weights) if Path(config.weights).is_file() else None
    with suppress(SimscError):  # a backbone of the hub has no entry
        return find_weights(find_backbone(config.backbone))
    return None


def _file_digest(file: Path) -> str:
    return _digest(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _digest(file: Path, changed: int) -> str:  # noqa: ARG001 - a changed file is read again
    return sha256(file)
