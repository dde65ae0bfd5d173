"""Trunk outputs, computed once per image.

With only the tail learning, the trunk's output of an image never changes: it is kept in memory, or on disk as
memory-mapped arrays named by a hash of the weights, the image's content, the input size and the flip.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from simsc.data.records import ImageRef
from simsc.errors import ConfigError, unknown_name
from simsc.files import atomic_path
from simsc.models.model import SimSC, State

MODES = ("auto", "memory", "disk", "none")
DTYPES = {"float32": torch.float32, "float16": torch.float16}


class TrunkCache:
    """Trunk states by image. ``get`` returns them stacked as a batch, in float32."""

    def __init__(self, dtype: str = "float32", folder: Path | None = None, fingerprint: str = "") -> None:
        if dtype not in DTYPES:
            raise ConfigError(unknown_name("cache dtype", dtype, DTYPES))
        self.dtype = DTYPES[dtype]
        self.folder = folder / f"{fingerprint}-{dtype}" if folder else None
        self._memory: dict[str, State] = {}

    def __contains__(self, ref: ImageRef) -> bool:
        return ref.key in self._memory or self._attach(ref)

    def put(self, ref: ImageRef, state: State) -> None:
        """Keep the state (without batch dimension) of one image."""
        kept = tuple(tensor.detach().to("cpu", self.dtype, copy=True) for tensor in state)
        if self.folder is None:
            self._memory[ref.key] = kept
            return
        for part, tensor in enumerate(kept):
            with atomic_path(self._file(ref, part), durable=False) as temporary, temporary.open("wb") as stream:
                np.save(stream, tensor.contiguous().numpy())
        self._attach(ref)

    def get(self, refs: Sequence[ImageRef]) -> State:
        """States of several images, stacked: a tuple of ``(B, ...)`` tensors."""
        states = [self._memory[ref.key] for ref in refs]
        return tuple(torch.stack(parts).float() for parts in zip(*states, strict=True))

    def put_batch(self, refs: Sequence[ImageRef], states: State) -> None:
        """Keep the states ``(B, ...)`` of several images."""
        for index, ref in enumerate(refs):
            self.put(ref, tuple(part[index] for part in states))

    def _attach(self, ref: ImageRef) -> bool:
        """Map the files of an image into memory, if they are there."""
        if self.folder is None or not self._file(ref, 0).exists():
            return False
        parts: list[Tensor] = []
        while (path := self._file(ref, len(parts))).exists():
            # Copy-on-write: PyTorch wants writable memory, and the file stays as it is.
            parts.append(torch.from_numpy(np.load(path, mmap_mode="c")))
        self._memory[ref.key] = tuple(parts)
        return True

    def _file(self, ref: ImageRef, part: int) -> Path:
        assert self.folder is not None
        name = content_hash(ref)
        return self.folder / name[:2] / f"{name}.{part}.npy"


def choose_cache(mode: str, dtype: str, model: SimSC, side: int, images: int, folder: Path) -> TrunkCache | None:
    """The cache for a run, or None: ``auto`` takes memory if the states fit in half of what is free, else disk."""
    if mode not in MODES:
        raise ConfigError(unknown_name("cache", mode, MODES))
    nothing_frozen = model.backbone.tail_blocks > model.backbone.num_blocks
    if mode == "none" or (mode == "auto" and nothing_frozen):
        return None
    if nothing_frozen:
        raise ConfigError(f"cache '{mode}' needs a frozen trunk, but trainable is 'all'; allowed here: auto, none")
    if mode == "memory" or (mode == "auto" and _state_bytes(model, side, dtype) * images < free_memory() / 2):
        return TrunkCache(dtype)
    return TrunkCache(dtype, folder, trunk_fingerprint(model, side))


def trunk_fingerprint(model: SimSC, side: int) -> str:
    """Hash of everything a trunk state depends on besides the image: frozen weights, split and input size."""
    digest = hashlib.sha256()
    tail = {id(parameter) for module in model.backbone.tail_modules() for parameter in module.parameters()}
    layers = () if model.head is None else model.head.layers
    digest.update(f"{model.backbone.spec.name} {model.backbone.tail_blocks} {layers} {side}".encode())
    for name, tensor in model.backbone.state_dict(keep_vars=True).items():
        if id(tensor) not in tail:
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def content_hash(ref: ImageRef) -> str:
    """Hash of an image's content and flip: the file's bytes, or the rendered pixels."""
    digest = hashlib.sha256(b"flip" if ref.flip else b"")
    digest.update(ref.path.read_bytes() if ref.path is not None else ref.load().tobytes())
    return digest.hexdigest()[:40]


def free_memory() -> int:
    """Bytes of memory that are available; 4 GiB where the system does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 4 << 30


def _state_bytes(model: SimSC, side: int, dtype: str) -> int:
    state = model.trunk(torch.zeros(1, 3, side, side, device=next(model.parameters()).device))
    return sum(part.numel() for part in state) * DTYPES[dtype].itemsize
