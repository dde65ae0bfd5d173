"""What a model file says about itself, and which file a name stands for. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simsc.errors import ConfigError, DataError, WeightsError, unknown_name
from simsc.models import DEFAULT
from simsc.models.specs import HUB_PREFIX, backbone_names, find_backbone
from simsc.reading import is_file, parse_json

if TYPE_CHECKING:
    from simsc.models.calibration import Calibration
    from simsc.models.model import SimSC

HEAD_MARK = "+"
"""Stands between a backbone and its head: ``resnet50+hpf``."""

_SUFFIX = ".safetensors"
_BEST = f"best{_SUFFIX}"


@dataclass(frozen=True)
class Design:
    """What rebuilds a network; see :class:`simsc.models.model.SimSC` and :func:`simsc.models.build_backbone`."""

    backbone: str
    temperature: str = "mlp"
    trainable: str = "last-block"
    head: str = "none"
    normalize: bool = True
    query: str = "normalize-then-sample"
    convention: str = "center"
    final_norm: bool = True
    freeze_batchnorm: bool = True

    @staticmethod
    def of(description: Mapping[str, Any]) -> Design:
        """The design in a configuration or description, which may hold more."""
        names = [each.name for each in fields(Design)]
        return Design(**{name: description[name] for name in names if name in description})

    @staticmethod
    def of_network(network: SimSC) -> Design:
        """The design of a network in memory."""
        return Design(
            backbone=network.backbone.spec.name,
            temperature=network.temperature_name,
            trainable=network.trainable,
            head=network.head_name,
            normalize=network.normalize,
            query=network.query,
            convention=network.convention,
            final_norm=getattr(network.backbone, "final_norm", True),
            freeze_batchnorm=network.freeze_batchnorm,
        )

    def differs(self, other: Design) -> str | None:
        """The first thing in which two networks compute differently; how they were trained does not count."""
        ours, theirs = asdict(self), asdict(other)
        if same_backbone(self.backbone, other.backbone):
            ours["backbone"] = theirs["backbone"]
        names = (name for name in ours if name not in ("trainable", "freeze_batchnorm"))
        return next((name for name in names if ours[name] != theirs[name]), None)


@dataclass(frozen=True)
class Best:
    """The validation that chose a model: PCK@0.1, the epoch, and all figures by alpha."""

    pck: float = -1.0
    epoch: int = 0
    val: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    """All that is known about a model besides its weights.

    Attributes:
        design: rebuilds the network.
        localizer: how its score maps become points.
        coherent: whether they heed the matches around a point, see :mod:`simsc.matching.coherence`.
        beta_eval: evaluation temperature on top of its own, for models that have not learned one.
        image_size: side of the square input it was trained at; None for the backbone's usual one.
        protocol: evaluation protocol of its figures.
        calibration: turns the signals of its matches into probabilities; None where nobody fitted them.
        origin: fingerprint of the weights its training started from; empty where that is not known.
        averaged: how many models it is the mean of.
        sources: the data that it, the model it started from, and those it is the mean of were trained on, with commas
            between them; empty where that is only its own training's.
        best: the validation that chose it.
        training: the rest of the configuration it was trained with, as it was stored.
    """

    design: Design
    localizer: str = "kernel-soft-argmax"
    coherent: bool = False
    beta_eval: float = 1.0
    image_size: int | None = None
    protocol: str = "paper-256"
    calibration: Calibration | None = None
    origin: str = ""
    averaged: int = 1
    sources: str = ""
    best: Best | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(description: Mapping[str, Any]) -> Card:
        """The card of a flat description, as it stands in a model file or in a configuration."""
        design = Design.of(description)
        own = {name: description[name] for name in _OWN if name in description}
        if isinstance(own.get("best"), Mapping):
            own["best"] = Best(**own["best"])
        if isinstance(own.get("calibration"), Mapping):
            from simsc.models.calibration import Calibration  # needs numpy, which help does without

            own["calibration"] = Calibration.from_dict(own["calibration"])
        known = {*_OWN, *asdict(design)}
        rest = {key: value for key, value in description.items() if key not in known}
        return Card(design, **own, training=rest)

    @staticmethod
    def read(path: str | Path) -> Card:
        """The card in a model file; refuses files that are not this project's."""
        path = Path(path)
        try:
            return Card.of(_checked(_metadata(path)))
        except (TypeError, ValueError, DataError) as error:
            raise WeightsError(f"{path}: its description cannot be understood ({str(error)[:200]})") from None

    @property
    def learned_from(self) -> str:
        """All data that went into it, without the weights of sources; empty where nobody trained it."""
        return self.sources or join_sources([str(self.training.get("data", ""))])

    def to_dict(self) -> dict[str, Any]:
        """The flat description that is stored; what was not there before and says nothing is left out."""
        plain = asdict(self) | {"calibration": self.calibration and self.calibration.to_dict()}
        empty = {
            "protocol": "paper-256",
            "coherent": False,
            "calibration": None,
            "origin": "",
            "averaged": 1,
            "sources": "",
            "best": None,
        }
        own = {key: plain[key] for key in _OWN if key not in empty or plain[key] != empty[key]}
        if self.image_size is None:
            own.pop("image_size")
        return {**self.training, **plain["design"], **own}


def join_sources(lists: Sequence[str]) -> str:
    """Sources of several lists, each once and without its weight.

    >>> join_sources(["pfpascal@2,spair", "", "spair@0.5,coco:me@home/train.json"])
    'pfpascal,spair,coco:me@home/train.json'
    """
    return ",".join(dict.fromkeys(_WEIGHT.sub("", part) for one in lists for part in one.split(",") if part))


_WEIGHT = re.compile(r"@[\d.e+-]+$")


_OWN = tuple(each.name for each in fields(Card) if each.name not in ("design", "training"))


def find_model(name: str | Path | None = None) -> Path | None:
    """The model file that a name stands for; None if it names a backbone, with or without a head."""
    if name is None:
        return _packaged_default()
    if (path := _trained(str(name))) is not None:
        return path
    backbone, head = split_head(str(name))
    if backbone.startswith(HUB_PREFIX) and head == "none":
        from simsc.models.published import find_published

        return find_published(backbone)
    if not (backbone.startswith(HUB_PREFIX) or backbone in backbone_names()):
        raise ConfigError(_refusal(backbone))
    if head != "none":
        from simsc.models.heads import parse_head

        parse_head(head)  # a misspelt head is refused before anything is loaded
    return None


def find_trained(name: str | Path | None = None) -> Path:
    """The model file that a name stands for; a backbone is refused."""
    path = find_model(name)
    if path is None:
        raise ConfigError(f"{name} is a backbone, not a trained model; give a packaged name, a file or a run folder")
    return path


def split_head(name: str) -> tuple[str, str]:
    """Backbone and head of a name.

    >>> split_head("resnet50+scot:layers=7-9-11"), split_head("resnet50")
    (('resnet50', 'scot:layers=7-9-11'), ('resnet50', 'none'))
    """
    backbone, mark, head = name.partition(HEAD_MARK)
    return backbone, head if mark else "none"


def packaged_models() -> dict[str, Path]:
    """The models that come with the package, by name, the default first."""
    files = sorted(packaged_folder().glob(f"*{_SUFFIX}"), key=lambda path: (path.stem != DEFAULT, path.stem))
    return {path.stem: path for path in files}


def packaged_folder() -> Path:
    """Folder of the packaged models."""
    return Path(__file__).parent / "packaged"


def same_backbone(one: str, other: str) -> bool:
    """Whether two names mean the same backbone.

    >>> same_backbone("resnet50-v1", "resnet50.v1_in1k")
    True
    """
    names = backbone_names()
    return one == other or (one in names and other in names and find_backbone(one) == find_backbone(other))


def _metadata(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError, safe_open

    if not is_file(path):
        raise WeightsError(f"{path}: no such model file")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(f"{path}: not a readable safetensors file ({str(error)[:200]})") from None
    if "simsc" not in metadata:
        raise WeightsError(f"{path}: holds no model description; expected a file written by simsc")
    description = parse_json(metadata["simsc"], "the description")
    if not isinstance(description, dict):
        raise DataError("the description is not an object")
    return description


def _checked(description: dict[str, Any]) -> dict[str, Any]:
    """A description whose entries are of the kinds that a card has; what it does not know may be anything."""
    kinds = {name: str(each.type) for part in (Design, Card) for name, each in part.__dataclass_fields__.items()}
    for name, value in description.items():
        expected = kinds.get(name, "")
        allowed = next((kind for word, kind in _KINDS.items() if expected.startswith(word)), object)
        optional = value is None and "None" in expected
        if not optional and (
            not isinstance(value, allowed) or (isinstance(value, bool) and allowed in (int, _KINDS["float"]))
        ):
            raise DataError(f"the field '{name}' must be {_words(expected)}, got {str(value)[:60]!r}")
    if description.get("backbone") == "":
        raise DataError("the field 'backbone' must be a name, got ''")
    if isinstance(description.get("best"), dict):
        _check_best(description["best"])
    if not 0 < description.get("beta_eval", 1.0) < 1e6:
        raise DataError(f"the field 'beta_eval' must be above 0, got {description['beta_eval']}")
    if not 1 <= (description.get("image_size") or 256) <= _LARGEST_INPUT:
        raise DataError(f"the field 'image_size' must be 1 to {_LARGEST_INPUT}, got {description['image_size']}")
    return description


_KINDS: dict[str, Any] = {"str": str, "bool": bool, "int": int, "float": (int, float), "Mapping": dict, "Best": dict}
_KINDS["Calibration"] = dict
_LARGEST_INPUT = 16384


def _words(kind: str) -> str:
    names = {"str": "a text", "bool": "true or false", "int": "a whole number", "float": "a number"}
    return next((words for name, words in names.items() if kind.startswith(name)), "an object")


def _check_best(best: dict[str, Any]) -> None:
    figures = best.get("val", {})
    if not isinstance(figures, dict) or not all(isinstance(value, (int, float)) for value in figures.values()):
        raise DataError("the field 'best.val' must hold numbers by name")
    if wrong := [name for name in ("pck", "epoch") if not isinstance(best.get(name, 0), (int, float))]:
        raise DataError(f"the field 'best.{wrong[0]}' must be a number")


def _trained(name: str) -> Path | None:
    """The file of a packaged model, model file or run folder; None if the name is none of these."""
    path, packaged = Path(name), packaged_models()
    if name in packaged:
        return packaged[name]
    if path.is_dir():
        return _best_of(path)
    return path if path.suffix == _SUFFIX or path.is_file() else None


def _refusal(name: str) -> str:
    """Why a name, of which a head was split off, cannot be opened: it is not a backbone."""
    if _trained(name) is not None:
        return (
            f"{name} is a trained model, which keeps the head it was trained with; "
            f"a head can only be added to a backbone, as in resnet50{HEAD_MARK}hpf"
        )
    known = unknown_name("model", name, [*packaged_models(), *backbone_names()])
    return f"{known}, such a backbone with a head (resnet50{HEAD_MARK}hpf), or the path of a model file or run folder"


def _packaged_default() -> Path:
    packaged = packaged_models()
    if DEFAULT not in packaged:
        raise WeightsError(
            f"this installation holds no packaged model {DEFAULT}; name a model file, a run folder, or a backbone "
            "such as resnet50 to match its pre-trained features"
        )
    return packaged[DEFAULT]


def _best_of(folder: Path) -> Path:
    if not (folder / _BEST).is_file():
        raise WeightsError(f"{folder}: holds no {_BEST}; is it a run folder of `simsc train`, and is an epoch done?")
    return folder / _BEST
