"""The one configuration object of a training run: validated, frozen, stored with the run."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, get_args

from simsc.errors import ConfigError, unknown_name
from simsc.models.trainable import paper_rates


class Rates(NamedTuple):
    """Learning rates of the backbone's trainable part, the temperature module and the head."""

    backbone: float
    temperature: float
    head: float


@dataclass(frozen=True, eq=False)
class Config:
    """Everything that decides what a run computes. A misspelt key or an impossible value is refused.

    Two configurations are equal if they compute the same, whether their rates were given or follow from the rest.
    """

    # model
    backbone: str = "resnet50.tv_in1k"
    weights: str = "default"  # "default", "random" or the path of a file
    start: str = ""  # a trained model to continue from: a packaged name, a file or a run folder
    temperature: str = "mlp"  # mlp, single, fixed:<t>, per-pixel
    trainable: str = "last-block"  # none, last-block, last-<k>, last-stage, all
    head: str = "none"
    normalize: bool = True  # False: the NoL2Norm ablation
    query: str = "normalize-then-sample"
    convention: str = "center"
    final_norm: bool = True  # a ViT's last LayerNorm
    freeze_batchnorm: bool = True

    # data
    data: str = "pfpascal"  # one source or several: name[/split][:place][@weight], with commas between them
    train_split: str = "train"  # of sources that name none
    val_split: str = "val"
    hold_out: str = (
        ""  # data sets whose validation and test photographs are left out of other sources; name!: of its own
    )
    image_size: int = 256
    pairing: str = (
        "auto"  # listed, all (within a category), drawn (each epoch); auto: listed where group = 2 and one is
    )
    group: int = (
        2  # images that drawn pairs are formed of, all with all; an epoch then shows every image, not every pair
    )
    anchor_split: str = ""  # groups are built around the pairs of this split; pfpascal/train: those of one source
    max_pairs: int = 0  # train on at most so many pairs (or anchors), spread evenly over the list; 0 = all
    flip: float = 0.0  # probability of mirroring both images of a pair, or all of a group
    flip_alone: float = (
        0.0  # of mirroring an image by itself, left and right points exchanging names, where they have some
    )
    colour: float = 0.0  # strength of brightness, contrast and saturation changes
    crop: float = 0.0  # largest share of each side that a random crop removes
    zoom: float = 0.0  # strength of random scaling: 0.5 is a factor between 1/1.5 and 1.5
    turn: float = 0.0  # largest random turn, in degrees
    variants: int = 0  # augmented copies of each image to choose from, which can be cached; 0 = new ones each epoch
    both_directions: bool = False  # add the loss from target to source

    # loss
    region: int = 3  # the paper's n_s
    kernel: int = 5  # the paper's n_k
    interpolate: str = "prob"
    normalize_target: bool = True
    between: float = 0.0  # weight of points between neighbouring key-points, which must be found roughly; 0 = off
    absent: float = 0.0  # weight of telling points that the target does not have from those it has; 0 = off
    teacher: str = ""  # a trained model whose matches of points that nobody marked are taught too
    taught: float = 1.0  # weight of what it teaches
    beta_threshold: float = 0.1
    gamma: float = 0.2

    # optimisation
    epochs: int = 100
    batch_size: int = 4  # pairs
    rate: float = 0.0  # of the backbone's trainable part; 0 = the paper's: 2e-5 for all of it, else 1e-4
    temperature_rate: float = 0.0  # 0 = the paper's: 5e-3 for a single temperature, else 1e-4
    head_rate: float = 0.0  # 0 = 1e-4
    warmup: int = 0  # steps of linear warm-up
    schedule: str = "constant"  # constant, or cosine: falls to 2 % over all epochs
    clip: float = 0.0  # largest gradient norm; 0 = off
    average: float = 0.0  # decay of the running average of the weights that is validated and kept; 0 = off
    seed: int = 0

    # evaluation
    localizer: str = "kernel-soft-argmax"
    coherent: bool = False  # heed the matches around a point; only where features are compared
    beta_eval: float = 1.0
    keep: str = "best"  # the model of the best epoch by validation PCK, or of the last one
    patience: int = 0  # stop after so many epochs without a better validation PCK; 0 = never

    # execution: how fast, not what
    cache: str = "auto"  # auto, memory, disk, none
    cache_dtype: str = "float32"
    share_images: bool = True  # pairs that share an image stand together in a batch
    amp: str = "none"  # none, bf16, fp16 (CUDA)
    compile: bool = False
    checkpoint_minutes: float = 5.0
    log_every: int = 20
    track_gradients: bool = False  # record gradient magnitudes of the last block's convolutions

    def __post_init__(self) -> None:
        for name, kind in _TYPES.items():
            object.__setattr__(self, name, _checked(name, kind, getattr(self, name)))
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name} = {value} is not allowed; allowed: {low} to {high}")
        for name, allowed in _choices().items():
            if getattr(self, name) not in allowed:
                raise ConfigError(unknown_name(name, str(getattr(self, name)), allowed))
        _check_names(self)
        if self.region > self.kernel:
            raise ConfigError(f"region = {self.region} must not exceed kernel = {self.kernel}")
        if self.pairing in ("listed", "all") and self.group > 2:
            raise ConfigError(f"pairing = {self.pairing} takes pairs from a list; group = {self.group} needs drawn")
        if self.anchor_split and self.group < 4:
            raise ConfigError(f"anchor_split = {self.anchor_split} builds groups of pairs; it needs group = 4 or more")
        if self.group > 2 and not self.share_images:
            raise ConfigError(
                f"group = {self.group} means that pairs share images; share_images = false needs group = 2"
            )
        if self.cache not in ("auto", "none") and (self.endless or self.trainable == "all"):
            raise ConfigError(
                f"cache = {self.cache} needs a frozen trunk and a finite number of images; allowed here: auto, none, "
                "or augmentation with variants = 4, say"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.to_dict().items()))

    @property
    def rates(self) -> Rates:
        """The learning rates, those of the paper where none is given: they follow from what learns."""
        paper = paper_rates(self.trainable, self.temperature)
        return Rates(
            self.rate or paper["backbone"],
            self.temperature_rate or paper["temperature"],
            self.head_rate or paper["head"],
        )

    @property
    def augments(self) -> bool:
        """Whether images change from epoch to epoch."""
        return bool(self.flip or self.flip_alone or self.colour or self.crop or self.zoom or self.turn)

    @property
    def endless(self) -> bool:
        """Whether there is no end to the images' variants, which rules out cached trunk outputs."""
        return self.augments and not self.variants

    def updated(self, changes: Mapping[str, Any]) -> Config:
        """A copy with some values changed; strings are converted to the field's type.

        >>> Config().updated({"epochs": "3", "normalize": "false"}).epochs
        3
        """
        return dataclasses.replace(self, **{key: convert(key, value) for key, value in changes.items()})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and YAML, with the rates that are used."""
        rates = self.rates
        used = {"rate": rates.backbone, "temperature_rate": rates.temperature, "head_rate": rates.head}
        return {**dataclasses.asdict(self), **used}


_TYPES = typing.get_type_hints(Config)
_INFINITY = float("inf")
_RANGES: dict[str, tuple[float, float]] = {
    "image_size": (16, 4096),
    "group": (2, 64),
    "max_pairs": (0, _INFINITY),
    "flip": (0, 1),
    "flip_alone": (0, 1),
    "colour": (0, 1),
    "crop": (0, 0.9),
    "zoom": (0, 4),
    "turn": (0, 180),
    "variants": (0, 1000),
    "region": (1, 99),
    "kernel": (2, 99),
    "between": (0, 100),
    "absent": (0, 100),
    "taught": (0, 100),
    "beta_threshold": (1e-6, 1),
    "gamma": (0, _INFINITY),
    "epochs": (0, 1_000_000),
    "batch_size": (1, 65_536),
    "rate": (0, 10),
    "temperature_rate": (0, 10),
    "head_rate": (0, 10),
    "warmup": (0, _INFINITY),
    "clip": (0, _INFINITY),
    "average": (0, 0.999999),
    "seed": (0, 2**32 - 1),  # numpy refuses negative ones
    "beta_eval": (1e-6, _INFINITY),
    "patience": (0, _INFINITY),
    "checkpoint_minutes": (0, _INFINITY),
    "log_every": (1, _INFINITY),
}


@cache
def _choices() -> dict[str, Sequence[str]]:
    """Allowed values, each from the place that gives them their meaning."""
    from simsc.coordinates import Convention
    from simsc.evaluation.cache import DTYPES, MODES
    from simsc.losses import Interpolation
    from simsc.matching.scores import QueryMode

    return {
        "query": get_args(QueryMode),
        "convention": get_args(Convention),
        "interpolate": get_args(Interpolation),
        "cache": MODES,
        "cache_dtype": tuple(DTYPES),
        "pairing": ("auto", "listed", "all", "drawn"),
        "schedule": ("constant", "cosine"),
        "keep": ("best", "last"),
        "amp": ("none", "bf16", "fp16"),
    }


def _check_names(config: Config) -> None:
    """Refuse misspelt names of what is looked up elsewhere, each with the sentence of its own registry."""
    from simsc.data.mixing import parse_hold_out, parse_sources
    from simsc.matching import LOCALIZERS
    from simsc.models.heads import parse_head
    from simsc.models.specs import HUB_PREFIX, find_backbone
    from simsc.models.temperature import check_temperature
    from simsc.models.trainable import check_trainable

    if not config.backbone.startswith(HUB_PREFIX):
        find_backbone(config.backbone)
    check_temperature(config.temperature)
    check_trainable(config.trainable)
    parse_head(config.head)
    _ = LOCALIZERS[config.localizer]
    parse_sources(config.data)
    parse_hold_out(config.hold_out)


def convert(key: str, value: Any) -> Any:
    """A value for a configuration key, converted from text where needed; refuses unknown keys."""
    if key not in _TYPES:
        raise ConfigError(unknown_name("configuration key", key, _TYPES))
    kind = _TYPES[key]
    if not isinstance(value, str) or kind is str:
        return _checked(key, kind, value)
    if kind is bool:
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{key} = {value} is not allowed; allowed: true, false")
        return value.lower() == "true"
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(f"{key} = {value} is not allowed; expected {_KINDS[kind]}") from None


_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _checked(key: str, kind: type, value: Any) -> Any:
    """The value if it is of the field's type; a whole number also serves as a float."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigError(f"{key} = {value} is not allowed; expected {_KINDS[kind]}")
    return value


def parse_changes(items: Sequence[str]) -> dict[str, str]:
    """``["rate=1e-4", "epochs=3"]`` as a dictionary, as given to ``--set``."""
    changes = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not separator:
            raise ConfigError(f"--set {item}: expected key=value, for example --set epochs=3")
        changes[key.strip()] = value.strip()
    return changes
