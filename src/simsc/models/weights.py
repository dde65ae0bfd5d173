"""Where weights come from, and how a file gets into a network. No pickle is ever executed."""

from __future__ import annotations

import argparse
import pickle
import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from simsc.downloads import Progress, download, recorded_sha256
from simsc.errors import WeightsError
from simsc.files import cache_folder, sha256, shared_folder
from simsc.models.specs import BackboneSpec, Source
from simsc.reading import is_file

if TYPE_CHECKING:
    from torch import Tensor

    from simsc.models.backbone import Backbone

    Tensors = dict[str, Tensor]

_SHOWN = 5
# Checkpoints of whole training runs keep the network under one of these; the teacher is the better network.
_SECTIONS = ("teacher", "state_dict", "model", "student")
_DEEPEST = 4
_WRAPPERS = ("module.", "_orig_mod.")


def weights_folder() -> Path:
    """Where weights are downloaded to, and can be put by hand."""
    return cache_folder() / "weights"


def weights_path(spec: BackboneSpec) -> Path:
    """Where the file of an entry is downloaded to, and can be put by hand."""
    return weights_folder() / _source(spec).file


def find_weights(spec: BackboneSpec) -> Path | None:
    """The file of an entry on this machine, under any of its names, or None."""
    folders = (weights_folder(), shared_folder() / "weights")
    names = spec.source.files if spec.source else ()
    return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)


def fetch_weights(spec: BackboneSpec, progress: Progress | bool = True) -> Path:
    """The verified file of an entry; downloaded if it is not on this machine."""
    source = _source(spec)
    if path := find_weights(spec):
        expected = source.files[path.name] or recorded_sha256(path)
        if expected and not (found := sha256(path)).startswith(expected):
            raise WeightsError(f"{path} is damaged: its SHA-256 is {found}, expected {expected}; delete it")
        return path
    if source.url is None:
        raise WeightsError(
            f"the weights of {spec.name} are not on this machine and cannot be downloaded directly "
            f"({source.address}); put the file at {weights_path(spec)}"
        )
    return download(source.url, weights_path(spec), sha256=source.sha256, progress=progress)


def load_weights(backbone: Backbone, path: Path | None = None) -> None:
    """Load a file, by default the registry's, into a backbone.

    Args:
        backbone: changed in place.
        path: safetensors, or a file of ``torch.save`` that holds tensors; named as the network's authors do (or
            torchvision), as the hub does, or as ``backbone.state_dict()`` does; alone or within a training checkpoint.

    Raises:
        WeightsError: the file is missing, damaged, holds Python objects, or does not fit.
    """
    path = path or fetch_weights(backbone.spec)
    try:
        tensors = read_tensors(path)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    fill(backbone, tensors, str(path))


def fill(backbone: Backbone, tensors: Tensors, origin: str) -> None:
    """Put the tensors of a file into a backbone, which may still be without memory; ``origin`` is for errors."""
    own, given = backbone.state_dict(), backbone.own_names(tensors)
    check_fit(backbone, given, origin)
    counters = {key: value.new_zeros((), device="cpu") for key, value in own.items() if _is_counter(key)}
    # Copied: weights must not stay a view into a file that somebody may write to.
    copies = {key: value.to(own[key].dtype, copy=True) for key, value in given.items()}
    unset = any(value.is_meta for value in own.values())
    backbone.load_state_dict({**counters, **copies}, assign=unset)


def read_tensors(path: Path) -> Tensors:
    """All tensors of a file by name, without executing anything in it.

    Raises:
        WeightsError: whatever is wrong with the file, also weights that are not finite; the sentence lacks its name.
    """
    import torch
    from safetensors.torch import load_file

    if not is_file(path):
        raise WeightsError("no such file")
    try:
        if path.suffix == ".safetensors":
            return check_finite(unwrap(load_file(path)))
        # Training checkpoints carry their options: a plain holder of values, safe to build.
        with torch.serialization.safe_globals([argparse.Namespace]):
            return check_finite(unwrap(torch.load(path, map_location="cpu", weights_only=True)))
    except (WeightsError, MemoryError):
        raise
    except pickle.UnpicklingError:
        raise WeightsError("holds Python objects besides tensors, which are never loaded") from None
    except Exception as error:  # libraries meet damaged bytes here, and raise whatever comes to them
        raise WeightsError(f"not a readable weights file ({first_line(error)})") from None


def first_line(error: Exception) -> str:
    """What an error says, short enough for a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def check_finite(tensors: Tensors) -> Tensors:
    """The tensors; refuses those that no network can compute with."""
    for name, tensor in tensors.items():
        if str(tensor.layout) != "torch.strided" or tensor.is_meta or tensor.is_quantized or tensor.is_complex():
            raise WeightsError(f"'{name[:80]}' is not a dense tensor of real numbers")
        if tensor.is_floating_point() and not tensor.float().isfinite().all():
            raise WeightsError(f"the weights '{name[:80]}' are not all finite numbers")
    return tensors


def unwrap(checkpoint: Mapping[str, object]) -> Tensors:
    """The network's tensors of a checkpoint: sections opened, wrappers' prefixes removed, heads dropped.

    >>> import torch
    >>> w = torch.zeros(1)
    >>> list(unwrap({"teacher": {"module.backbone.norm.bias": w, "module.head.mlp.0.bias": w}, "epoch": 99}))
    ['norm.bias']
    """
    from torch import Tensor

    if not isinstance(checkpoint, Mapping):
        raise WeightsError(f"holds a {type(checkpoint).__name__}, where tensors by name are expected")
    for _ in range(_DEEPEST):  # a section could hold itself
        if section := next((name for name in _SECTIONS if isinstance(checkpoint.get(name), Mapping)), None):
            checkpoint = checkpoint[section]  # type: ignore[assignment]
    named = ((key, value) for key, value in checkpoint.items() if isinstance(key, str))
    tensors = {_strip(key): value for key, value in named if isinstance(value, Tensor)}
    inner = {key.removeprefix("backbone."): tensors[key] for key in tensors if key.startswith("backbone.")}
    return inner or tensors


def check_fit(backbone: Backbone, tensors: Tensors, origin: str) -> None:
    """Refuse tensors that are not exactly those of the backbone; says which keys are at fault."""
    own = {key: value for key, value in backbone.state_dict().items() if not _is_counter(key)}
    given = {key: value for key, value in tensors.items() if not _is_counter(key)}
    if found := misfits(own, given):
        raise WeightsError(f"{origin} does not fit {backbone.spec.name}; {found}")


def misfits(own: Tensors, given: Tensors) -> str:
    """What of some tensors does not fit a network's own, with a few names of each kind; empty where all does."""
    faults = {
        "missing": [key for key in own if key not in given],
        "unexpected": [key[:80] for key in given if key not in own],
        "of the wrong shape": [
            f"{key} {tuple(given[key].shape)} instead of {tuple(value.shape)}"
            for key, value in own.items()
            if key in given and given[key].shape != value.shape
        ],
    }
    return "; ".join(f"{len(keys)} keys {fault}: {_some(keys)}" for fault, keys in faults.items() if keys)


def modern_names(tensors: Tensors, own: Container[str]) -> Tensors:
    """The state dict of a whole model, in which the backbone may still have the names of the hub's networks.

    Older model files have those.

    Args:
        tensors: names start with ``backbone.``, ``temperature.`` or ``head.``.
        own: the names of the model they are for; what it knows is left as it is.

    >>> import torch
    >>> old = {"backbone.network.embedder.embedder.convolution.weight": torch.zeros(1), "temperature.x": torch.ones(1)}
    >>> list(modern_names(old, ()))
    ['temperature.x', 'backbone.conv1.weight']
    """
    prefix = "backbone.network."
    old = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    if not old or any(prefix + key in own for key in old):
        return tensors
    kept = {key: value for key, value in tensors.items() if not key.startswith(prefix)}
    return kept | {f"backbone.{key}": value for key, value in authors_names(old).items()}


# The hub's names, today's and older ones, and those of the networks' authors.
_NAMES = (
    (r"^(network|resnet|vit|dinov2|dinov2_with_registers)\.", ""),
    (r"^embedder\.embedder\.convolution\.", "conv1."),
    (r"^embedder\.embedder\.normalization\.", "bn1."),
    (r"^encoder\.stages\.(\d)\.layers\.(\d+)\.shortcut\.convolution\.", r"layer<\1>.\2.downsample.0."),
    (r"^encoder\.stages\.(\d)\.layers\.(\d+)\.shortcut\.normalization\.", r"layer<\1>.\2.downsample.1."),
    (r"^encoder\.stages\.(\d)\.layers\.(\d+)\.layer\.(\d)\.convolution\.", r"layer<\1>.\2.conv<\3>."),
    (r"^encoder\.stages\.(\d)\.layers\.(\d+)\.layer\.(\d)\.normalization\.", r"layer<\1>.\2.bn<\3>."),
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.patch_embeddings\.(projection\.)?", "patch_embed.proj."),
    (r"^embeddings\.", ""),
    (r"^layernorm\.", "norm."),
    (r"^(encoder\.layer|model\.layer|layers|layer)\.(\d+)\.", r"blocks.\2."),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.layer_scale(\d)\.lambda1$", r".ls\1.gamma"),
    (r"\.attention\.(o_proj|output\.dense)\.", ".attn.proj."),
    (r"\.attention\.(q_proj|attention\.query)\.", ".attn.q."),
    (r"\.attention\.(k_proj|attention\.key)\.", ".attn.k."),
    (r"\.attention\.(v_proj|attention\.value)\.", ".attn.v."),
    (r"\.(mlp\.up_proj|intermediate\.dense)\.", ".mlp.fc1."),
    (r"\.(mlp\.down_proj|output\.dense)\.", ".mlp.fc2."),
)


def authors_names(tensors: Tensors) -> Tensors:
    """Tensors of a ResNet or ViT of the hub under the names of the networks' authors, projections joined to ``qkv``.

    >>> import torch
    >>> list(authors_names({"resnet.encoder.stages.2.layers.5.layer.1.normalization.weight": torch.zeros(1)}))
    ['layer3.5.bn2.weight']
    """
    return _join_projections({_authors_name(key): value for key, value in tensors.items()})


def _authors_name(key: str) -> str:
    for pattern, replacement in _NAMES:
        key = re.sub(pattern, replacement, key)
    return re.sub(r"<(\d)>", lambda number: str(int(number[1]) + 1), key)  # the hub counts stages and layers from 0


def _join_projections(tensors: Tensors) -> Tensors:
    """``attn.q``, ``attn.k`` and ``attn.v`` as one ``attn.qkv``; keys without a bias (DINOv3) get zeros."""
    import torch

    joined = dict(tensors)
    for key, value in tensors.items():
        match = re.fullmatch(r"(blocks\.\d+\.attn\.)q\.(weight|bias)", key)
        names = [f"{match[1]}{letter}.{match[2]}" for letter in "qkv"] if match else []
        missing = {names[1]: torch.zeros_like(value)} if match and match[2] == "bias" else {}
        parts = {**missing, **tensors}
        if match and all(name in parts for name in names):
            joined[f"{match[1]}qkv.{match[2]}"] = torch.cat([parts[name] for name in names])
            joined = {key: value for key, value in joined.items() if key not in names}
    return joined


def _source(spec: BackboneSpec) -> Source:
    if spec.source is None:
        raise WeightsError(f"{spec.name} has no weights file: it is built with its weights")
    return spec.source


def _is_counter(key: str) -> bool:
    """BatchNorm counts its batches; files may lack that, and nothing depends on it."""
    return key.endswith("num_batches_tracked")


def _strip(key: str) -> str:
    while wrapper := next((prefix for prefix in _WRAPPERS if key.startswith(prefix)), None):
        key = key.removeprefix(wrapper)
    return key


def _some(keys: list[str]) -> str:
    more = f", and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + more
