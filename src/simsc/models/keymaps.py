"""How the keys of original checkpoints map to those of our networks.

A layout is recognised by its keys, so a file can be given without saying what it is: ``ours`` (a state dict of
a backbone), ``torchvision`` (ResNet), ``original`` (the ViT layout that DINO, iBOT, DINOv2 and DINOv3 share) and
``hub`` (files of the Hugging Face hub). Parts we do not use (classifiers, the fourth ResNet stage, mask tokens)
are dropped here, by name, so that everything else that does not fit is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from torch import Tensor

from simsc.errors import WeightsError

Tensors = dict[str, Tensor]

# Checkpoints of whole training runs keep the network under one of these; the teacher is the better network.
_SECTIONS = ("teacher", "state_dict", "model", "student")
_WRAPPERS = ("module.", "_orig_mod.")
_UNUSED_VIT = re.compile(
    r"(head|pooler|classifier|dino_head|ibot_head)\..*|(.*\.)?(mask_token|masked_embed|bias_mask)"
    r"|rope_embed\..*|rope_embeddings\..*|fc_norm\..*"
)
_UNUSED_RESNET = re.compile(r"(layer4|fc|classifier|pooler)\..*|encoder\.stages\.3\..*")


def unwrap(checkpoint: Mapping[str, object]) -> Tensors:
    """The network's tensors of a checkpoint: sections opened, wrappers' prefixes removed, heads dropped.

    >>> import torch
    >>> w = torch.zeros(1)
    >>> list(unwrap({"teacher": {"module.backbone.norm.bias": w, "module.head.mlp.0.bias": w}, "epoch": 99}))
    ['norm.bias']
    """
    while section := next((name for name in _SECTIONS if isinstance(checkpoint.get(name), Mapping)), None):
        checkpoint = checkpoint[section]  # type: ignore[assignment]
    tensors = {_strip(key): value for key, value in checkpoint.items() if isinstance(value, Tensor)}
    inner = {key.removeprefix("backbone."): tensors[key] for key in tensors if key.startswith("backbone.")}
    return inner or tensors


def to_our_keys(tensors: Tensors, family: str) -> Tensors:
    """Rename (and, for fused projections, split) the tensors of any known layout.

    Args:
        tensors: as :func:`unwrap` gives them.
        family: the ``family`` of the backbone they are for.
    """
    if family != "resnet" and family not in _BLOCKS:  # a hub model we use whole keeps its own names
        return {f"network.{key.removeprefix('network.')}": value for key, value in tensors.items()}
    layout = _layout(tensors)
    if layout == "ours":
        return tensors
    if family == "resnet":
        rename = torchvision_resnet if layout == "torchvision" else _hub_resnet
        return {ours: value for key, value in tensors.items() if (ours := rename(key)) is not None}
    convert = _original_vit if layout == "original" else _hub_vit
    return {ours: part for key, value in tensors.items() for ours, part in convert(key, value, family)}


def torchvision_resnet(key: str) -> str | None:
    """Our key for one of torchvision's ResNet; None for the parts we cut off.

    >>> torchvision_resnet("layer3.5.bn2.weight")
    'network.encoder.stages.2.layers.5.layer.1.normalization.weight'
    """
    if _UNUSED_RESNET.fullmatch(key):
        return None
    kinds = {"conv": "convolution", "bn": "normalization", "0": "convolution", "1": "normalization"}
    if match := re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn)(\d)\.(\w+)", key):
        stage, block, kind, number, name = match.groups()
        place = f"stages.{int(stage) - 1}.layers.{block}.layer.{int(number) - 1}"
        return f"network.encoder.{place}.{kinds[kind]}.{name}"
    if match := re.fullmatch(r"layer(\d)\.(\d+)\.downsample\.([01])\.(\w+)", key):
        stage, block, kind, name = match.groups()
        return f"network.encoder.stages.{int(stage) - 1}.layers.{block}.shortcut.{kinds[kind]}.{name}"
    if match := re.fullmatch(r"(conv|bn)1\.(\w+)", key):
        return f"network.embedder.embedder.{kinds[match[1]]}.{match[2]}"
    return key


def _hub_resnet(key: str) -> str | None:
    key = key.removeprefix("resnet.")
    return None if _UNUSED_RESNET.fullmatch(key) else f"network.{key}"


# Names inside a block, then outside: original -> transformers.
_COMMON = {
    "attn.proj": "attention.o_proj",
    "attn.q": "attention.q_proj",
    "attn.k": "attention.k_proj",
    "attn.v": "attention.v_proj",
}
_SCALED = {**_COMMON, "ls1.gamma": "layer_scale1.lambda1", "ls2.gamma": "layer_scale2.lambda1"}
_INSIDE = {
    "vit": {**_COMMON, "norm1": "layernorm_before", "norm2": "layernorm_after"},
    "dinov2": _SCALED,
    "dinov2_with_registers": _SCALED,
    "dinov3_vit": {**_SCALED, "mlp.fc1": "mlp.up_proj", "mlp.fc2": "mlp.down_proj"},
}
_BLOCKS = {
    "vit": "layers",
    "dinov2": "encoder.layer",
    "dinov2_with_registers": "encoder.layer",
    "dinov3_vit": "model.layer",
}
_OUTSIDE = {
    "cls_token": "embeddings.cls_token",
    "pos_embed": "embeddings.position_embeddings",
    "register_tokens": "embeddings.register_tokens",
    "storage_tokens": "embeddings.register_tokens",
    "patch_embed.proj": "embeddings.patch_embeddings.projection",
    "norm": "layernorm",
}
_OUTSIDE_V3 = {**_OUTSIDE, "patch_embed.proj": "embeddings.patch_embeddings", "norm": "norm"}


def _original_vit(key: str, value: Tensor, family: str) -> Iterator[tuple[str, Tensor]]:
    """The layout of DINO, iBOT, DINOv2 and DINOv3; the fused ``qkv`` becomes three tensors."""
    if _UNUSED_VIT.fullmatch(key):
        return
    # Sharded training inserts the number of the chunk: blocks.<chunk>.<block>.
    match = re.fullmatch(r"blocks\.(?:\d+\.)?(\d+)\.(\D.*)", key)
    if match is None:
        names = _OUTSIDE_V3 if family == "dinov3_vit" else _OUTSIDE
        yield f"network.{_replace(key, names)}", value
        return
    place, name = f"network.{_BLOCKS[family]}.{match[1]}", match[2]
    if not name.startswith("attn.qkv."):
        yield f"{place}.{_replace(name, _INSIDE[family])}", value
        return
    for letter, part in zip("qkv", value.chunk(3), strict=True):
        # DINOv3's keys have no bias: its files carry a masked one.
        if not (family == "dinov3_vit" and letter == "k" and name.endswith("bias")):
            yield f"{place}.{_replace(name.replace('qkv', letter), _INSIDE[family])}", part


# The hub's files keep the names of older transformers; from_pretrained renames them, and so do we.
_HUB = {
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}


def _hub_vit(key: str, value: Tensor, family: str) -> Iterator[tuple[str, Tensor]]:
    key = re.sub(r"^(vit|dinov2|dinov2_with_registers)\.", "", key)
    if _UNUSED_VIT.fullmatch(key):
        return
    match = re.fullmatch(r"(?:encoder\.layer|model\.layer|layers|layer)\.(\d+)\.(.*)", key)
    if match is None:
        yield f"network.{key}", value
    else:
        yield f"network.{_BLOCKS[family]}.{match[1]}.{_replace(match[2], _HUB)}", value


def _layout(tensors: Tensors) -> str:
    marks = {
        "ours": r"network\..*",
        "torchvision": r"conv1\.weight",
        "original": r"blocks\.\d+\..*",
        "hub": r"(.*\.)?(embeddings|embedder)\..*",
    }
    for layout, pattern in marks.items():
        if any(re.fullmatch(pattern, key) for key in tensors):
            return layout
    some = ", ".join(list(tensors)[:5]) or "none"
    raise WeightsError(f"keys of no known layout ({', '.join(marks)}); the first ones are: {some}")


def _replace(key: str, names: Mapping[str, str]) -> str:
    """Replace the leading name of ``key``, if it is one of ``names``."""
    for old, new in names.items():
        if key == old or key.startswith(f"{old}."):
            return new + key[len(old) :]
    return key


def _strip(key: str) -> str:
    while wrapper := next((prefix for prefix in _WRAPPERS if key.startswith(prefix)), None):
        key = key.removeprefix(wrapper)
    return key
