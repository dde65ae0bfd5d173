"""Trunk outputs, computed once per image.

With only the tail learning, the trunk's output of an image never changes: it is kept in memory, or on disk in
memory-mapped files named by a hash of the weights, the image's content, the input size and the flip.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch

from simsc.allocator import free_memory
from simsc.data.records import ImageRef
from simsc.errors import ConfigError, DataError, unknown_name
from simsc.files import atomic_path
from simsc.images import FILE_LIMIT
from simsc.models.model import SimSC, State
from simsc.reading import read_bytes

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
        self._files: dict[str, Path] = {}
        self._intact: set[str] = set()

    def __contains__(self, ref: ImageRef) -> bool:
        if ref.key in self._memory or ref.key in self._intact:
            return True
        if self.folder is not None and self._is_intact(self._file(ref)):
            self._intact.add(ref.key)
        return ref.key in self._intact

    def put(self, ref: ImageRef, state: State) -> None:
        """Keep the state (without batch dimension) of one image."""
        kept = tuple(tensor.detach().to("cpu", self.dtype, copy=True).contiguous() for tensor in state)
        if self.folder is None:
            self._memory[ref.key] = kept
            return
        from safetensors.torch import save_file

        with atomic_path(self._file(ref), durable=False) as temporary:
            tensors = {str(part): tensor for part, tensor in enumerate(kept)}
            save_file(tensors, temporary, metadata={"checksum": checksum(kept)})
        self._intact.add(ref.key)

    def get(self, refs: Sequence[ImageRef]) -> State:
        """States of several images, stacked: a tuple of ``(B, ...)`` tensors."""
        states = [self._memory[ref.key] if self.folder is None else self._read(ref) for ref in refs]
        # Float first: autocast, which a run may validate in, refuses to stack float16 on a CPU.
        return tuple(torch.stack([part.float() for part in parts]) for parts in zip(*states, strict=True))

    def put_batch(self, refs: Sequence[ImageRef], states: State) -> None:
        """Keep the states ``(B, ...)`` of several images."""
        for index, ref in enumerate(refs):
            self.put(ref, tuple(part[index] for part in states))

    def _read(self, ref: ImageRef) -> State:
        """Map an image's file into memory, only for as long as it is being read: open files are limited."""
        from safetensors import SafetensorError, safe_open

        path = self._file(ref)
        try:
            with safe_open(path, framework="pt") as file:
                return tuple(file.get_tensor(str(part)) for part in range(len(file.keys())))
        except (SafetensorError, OSError) as error:
            raise DataError(f"{path}: damaged file of the trunk cache ({error}); remove it") from None

    def _is_intact(self, path: Path) -> bool:
        """Whether a file is there and holds what was written; a damaged one is removed, and so computed again."""
        from safetensors import SafetensorError, safe_open

        if not path.exists():
            return False
        try:
            with safe_open(path, framework="pt") as file:
                state = tuple(file.get_tensor(str(part)) for part in range(len(file.keys())))
                if (file.metadata() or {}).get("checksum") == checksum(state):
                    return True
        except (SafetensorError, OSError, ValueError, RuntimeError):
            pass
        path.unlink(missing_ok=True)
        return False

    def _file(self, ref: ImageRef) -> Path:
        assert self.folder is not None
        if ref.key not in self._files:
            name = content_hash(ref)
            self._files[ref.key] = self.folder / name[:2] / f"{name}.safetensors"
        return self._files[ref.key]


def checksum(state: State) -> str:
    """Hexadecimal digits that tell a state from one whose bytes were damaged."""
    digest = 0
    for tensor in state:
        digest = zlib.crc32(f"{tensor.dtype} {tuple(tensor.shape)}".encode(), digest)
        digest = zlib.crc32(tensor.contiguous().view(-1).view(torch.uint8).numpy().data, digest)
    return f"{digest:08x}"


def choose_cache(
    mode: str, dtype: str, model: SimSC, side: int, images: int, folder: Path, *, shared: bool = False
) -> TrunkCache | None:
    """The cache for a run, or None where nothing is frozen.

    ``auto`` takes memory if the states fit in half of what is free, else the disk; with several processes
    (``shared``) the disk, so that each computes its part and reads those of the others.
    """
    if mode not in MODES:
        raise ConfigError(unknown_name("cache", mode, MODES))
    nothing_frozen = model.backbone.tail_blocks > model.backbone.num_blocks
    if mode == "none" or (mode == "auto" and nothing_frozen):
        return None
    if nothing_frozen:
        raise ConfigError(f"cache '{mode}' needs a frozen trunk, but trainable is 'all'; allowed here: auto, none")
    if mode == "auto":
        fits = not shared and _state_bytes(model, side, dtype) * images < free_memory() / 2
        mode = "memory" if fits else "disk"
    return TrunkCache(dtype) if mode == "memory" else TrunkCache(dtype, folder, trunk_fingerprint(model, side))


def trunk_fingerprint(model: SimSC, side: int) -> str:
    """Hash of everything a trunk state depends on besides the image: frozen weights, split and input size."""
    digest = hashlib.sha256()
    tail = {
        id(tensor) for module in model.backbone.tail_modules() for tensor in module.state_dict(keep_vars=True).values()
    }
    digest.update(f"{model.backbone.spec.name} {model.backbone.tail_blocks} {model.head.layers} {side}".encode())
    for name, tensor in model.backbone.state_dict(keep_vars=True).items():
        if id(tensor) not in tail:
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def content_hash(ref: ImageRef) -> str:
    """Hash of an image's content and flip: the file's bytes and what is done to them, or the rendered pixels."""
    return _hash(ref) if ref.path is not None else _hash_of_rendered(ref)


@lru_cache(maxsize=8192)
def _hash_of_rendered(ref: ImageRef) -> str:
    """Rendering is slow and always gives the same pixels: several runs in one process hash an image once."""
    return _hash(ref)


def _hash(ref: ImageRef) -> str:
    digest = hashlib.sha256(b"flip" if ref.flip else b"")
    if ref.path is not None and ref.render is not None:
        digest.update(ref.key.encode())  # names what is done to the file
    digest.update(read_bytes(ref.path, FILE_LIMIT) if ref.path is not None else ref.load().tobytes())
    return digest.hexdigest()[:40]


def _state_bytes(model: SimSC, side: int, dtype: str) -> int:
    height, width = model.backbone.fit_size((side, side))
    state = model.trunk(torch.zeros(1, 3, height, width, device=next(model.parameters()).device))
    return sum(part.numel() for part in state) * DTYPES[dtype].itemsize
