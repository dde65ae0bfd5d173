"""A trained model: a network that knows how it is used, and the one way to open and to write it."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simsc.devices import pick_precision
from simsc.errors import ConfigError, SimscError, WeightsError
from simsc.files import atomic_path
from simsc.models.backbone import build_backbone
from simsc.models.calibration import Calibration
from simsc.models.card import HEAD_MARK, Card, Design, find_model, join_sources, split_head
from simsc.models.inference import prepare_for_inference
from simsc.models.model import SimSC
from simsc.models.published import pinned_name
from simsc.models.specs import HUB_PREFIX
from simsc.models.weights import check_finite, first_line, misfits, modern_names


@dataclass(frozen=True)
class Trained:
    """A network with all that is known about it.

    Attributes:
        network: the model itself.
        card: its description; the parts that say how the network is used are also attributes of this object.
        name: what it was opened by, for messages.
    """

    network: SimSC
    card: Card
    name: str = "a model in memory"

    def __post_init__(self) -> None:
        wanted = self.card.coherent and self.network.head.compares_features
        if self.network.head.coherent != wanted:
            object.__setattr__(self, "network", _with_coherence(self.network, wanted))

    @staticmethod
    def open(name: str | Path | None = None) -> Trained:
        """The model of a name, in evaluation mode and float32.

        Args:
            name: None for the packaged default; the name of a packaged model; a ``.safetensors`` file; a run folder
                (its best checkpoint); ``hf:<owner>/<name>`` for a model on the hub; or the name of a backbone, also
                ``hf:<repository>``, whose pre-trained features are then matched at a constant temperature. With a
                head, as in ``resnet50+hpf`` or ``resnet50+scot:layers=7-9-11``, it is the temperature that suits that
                head.
        """
        path = find_model(name)
        if path is None:
            return _pretrained(*split_head(str(name)))
        opened = _read(path)
        return replace(opened, name=pinned_name(str(name), path)) if str(name).startswith(HUB_PREFIX) else opened

    @staticmethod
    def begin(config: Mapping[str, Any]) -> Trained:
        """The model that a training of a configuration begins with.

        A pre-trained backbone with a fresh temperature, or all weights of the trained model ``config["start"]``. Its
        origin is the start's, where that is known, or else these very weights.
        """
        name, seed = config.get("start", ""), config.get("seed", 0)
        network = build_model(config, "unset" if name else config.get("weights", "default"), seed)
        origin = sources = ""
        if name:
            start = Trained.open(name)
            _copy_weights(start, network)
            origin = start.card.origin
            sources = join_sources([start.card.learned_from, str(config.get("data", ""))])
            if name.startswith(HUB_PREFIX):
                config = {**config, "start": start.name}  # with its commit
        card = replace(Card.of(config), origin=origin or fingerprint(network.backbone), sources=sources)
        return Trained(network, card)

    @staticmethod
    def of(model: SimSC | Trained) -> Trained:
        """A network in memory, used as its backbone usually is; a trained model is returned as it is."""
        if isinstance(model, Trained):
            return model
        return Trained(model, Card(Design.of_network(model), coherent=model.head.coherent))

    @property
    def localizer(self) -> str:
        """How its score maps become points."""
        return self.card.localizer

    @property
    def beta_eval(self) -> float:
        """Evaluation temperature on top of its own."""
        return self.card.beta_eval

    @property
    def image_size(self) -> int:
        """Side of the square input it is used at."""
        return self.card.image_size or self.network.backbone.spec.input_size

    @property
    def protocol(self) -> str:
        """Evaluation protocol of its figures."""
        return self.card.protocol

    @property
    def calibration(self) -> Calibration | None:
        """What turns the signals of its matches into probabilities."""
        return self.card.calibration

    def described(self, **changes: Any) -> Trained:
        """The same network with some entries of its card changed."""
        return replace(self, card=replace(self.card, **changes))

    def ready(self, device: torch.device | str = "cpu", precision: str = "float32") -> Trained:
        """Prepare the network for inference on a device; it can then no longer be trained or saved.

        ``precision`` is one of :data:`simsc.devices.PRECISIONS`; that of a network which is ready already stays.
        """
        prepare_for_inference(self.network, pick_precision(precision, torch.device(device))).to(device)
        return self

    def copy(self) -> Trained:
        """A copy with a network of its own; one that is ready is shared, since nobody changes it."""
        return self if self.network.prepared else replace(self, network=copy.deepcopy(self.network))

    def save(self, path: str | Path, *, half: bool = False) -> None:
        """Write weights and card atomically; ``half`` stores matrices and kernels as float16.

        Vectors stay as they are: they are small, and statistics of a normalisation can exceed what float16 holds.
        """
        from safetensors.torch import save_file

        if self.network.prepared:
            raise WeightsError(f"{path}: a model that was prepared for inference cannot be saved; open it again")
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.network.state_dict().items()}
        if half:
            tensors = {
                name: tensor.half() if tensor.is_floating_point() and tensor.ndim > 1 else tensor
                for name, tensor in tensors.items()
            }
        card = replace(self.card, design=Design.of_network(self.network))
        with atomic_path(path) as temporary:
            save_file(tensors, temporary, metadata={"simsc": json.dumps(card.to_dict())})


def build_model(design: Design | Mapping[str, Any], weights: str | Path | None = "default", seed: int = 0) -> SimSC:
    """The network of a design, or of a configuration that holds one; ``weights`` are the backbone's.

    >>> build_model({"backbone": "resnet50", "temperature": "single"}, weights=None).temperature_name
    'single'
    """
    options = asdict(design if isinstance(design, Design) else Design.of(design))
    final_norm = options.pop("final_norm")
    if weights == "unset" and options["head"] != "none":
        weights = None  # a head may run its backbone, to see what its layers look like
    backbone = build_backbone(options.pop("backbone"), weights, final_norm=final_norm, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SimSC(backbone, **options)


def average(models: Sequence[Trained], shares: Sequence[float] | None = None) -> Trained:
    """Several models as one, the mean of their weights ("model soup", Wortsman et al., ICML 2022).

    Models that were fine-tuned from the same start lie in one basin, and the mean of their weights is often better
    than each of them, at the cost of one. Only the backbone (and a head) is averaged: a temperature module starts at
    random, so two of them have nothing in common, unit by unit; the first model's is kept, and so is its card, without
    a training's result.

    Args:
        models: of the same network, and of the same origin where it is known.
        shares: weight of each, above 0; they need not sum to 1. None for equal shares.
    """
    shares = [1.0] * len(models) if shares is None else shares
    if not models or len(shares) != len(models) or not all(share > 0 for share in shares):
        raise ConfigError(f"{len(models)} models and {len(shares)} shares: expected one share above 0 per model")
    _check_kinship(models)
    total, network = sum(shares), copy.deepcopy(models[0].network)
    states = [model.network.state_dict() for model in models]
    for name, mean in network.state_dict().items():
        if mean.is_floating_point() and not name.startswith("temperature."):
            mean.copy_(sum(state[name] * (share / total) for state, share in zip(states, shares, strict=True)))
    origins = {model.card.origin for model in models}
    return Trained(network, models[0].card).described(
        best=None,
        averaged=sum(model.card.averaged for model in models),
        sources=join_sources([model.card.learned_from for model in models]),
        origin=origins.pop() if len(origins) == 1 else "",
    )


def fingerprint(module: nn.Module) -> str:
    """Sixteen hexadecimal digits that change with a module's weights, not with their names or order."""
    tensors = [tensor for tensor in module.state_dict().values() if tensor.is_floating_point()]
    digests = sorted(hashlib.sha256(_bytes(tensor)).digest() for tensor in tensors)
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


def _with_coherence(network: SimSC, coherent: bool) -> SimSC:
    """The same network, weights shared, whose head heeds coherence or not; others may use the one given."""
    network, head = copy.copy(network), copy.copy(network.head)
    head.coherent = coherent
    network._modules = {**network._modules, "head": head}
    return network


def _check_kinship(models: Sequence[Trained]) -> None:
    first = models[0].card.design
    for model in models:
        if key := first.differs(model.card.design):
            raise ConfigError(
                f"{model.name} has {key} = {getattr(model.card.design, key)}, but {models[0].name} has "
                f"{getattr(first, key)}; only models of the same network can be averaged"
            )
    origins = {model.card.origin: model.name for model in models if model.card.origin}
    if len(origins) > 1:
        one, other, *_ = origins.values()
        raise ConfigError(
            f"{one} and {other} were not trained from the same weights; only models of one origin can be averaged"
        )


def _pretrained(backbone: str, head: str) -> Trained:
    network = build_model(Design(backbone, "fixed:1", "none", head))
    network.set_temperature(f"fixed:{network.head.usual_temperature}")
    return replace(Trained.of(network.eval()), name=backbone if head == "none" else f"{backbone}{HEAD_MARK}{head}")


def _read(path: Path) -> Trained:
    card = Card.read(path)
    try:
        network = build_model(card.design, weights="unset")
    except (SimscError, TypeError, ValueError, KeyError) as error:
        raise WeightsError(f"{path}: the network it describes cannot be built ({first_line(error)})") from None
    tensors = modern_names(_tensors(path), network.state_dict())
    if found := misfits(network.state_dict(), tensors):
        raise WeightsError(f"{path}: the weights do not fit the network it describes; {found}")
    network.load_state_dict(tensors, assign=True)
    return Trained(network.eval(), card, str(path))


def _tensors(path: Path) -> dict[str, Tensor]:
    """The weights of a model file, in float32."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = check_finite(load_file(str(path))).items()
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise WeightsError(f"{path}: not a readable model file ({first_line(error)})") from None
    # Copied: weights must not stay a view into a file that somebody may write to.
    return {
        name: tensor.to(torch.float32 if tensor.is_floating_point() else tensor.dtype, copy=True)
        for name, tensor in tensors
    }


def _copy_weights(start: Trained, network: SimSC) -> None:
    found, wanted = start.network.backbone.spec.name, network.backbone.spec.name
    if found != wanted:  # the weights of another one may fit, and would be used as they were not trained
        raise ConfigError(
            f"start = {start.name}: it is not of this configuration's kind (its backbone is {found}, not {wanted}); "
            f"set backbone={found}"
        )
    try:
        network.load_state_dict(start.network.state_dict(), assign=True)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ConfigError(f"start = {start.name}: it is not of this configuration's kind ({reason})") from None


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().float().cpu().contiguous().numpy().tobytes()
