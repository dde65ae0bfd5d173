"""ONNX Runtime in the place of PyTorch for the network's forward pass."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from simsc.coordinates import Size
from simsc.errors import ConfigError
from simsc.export.onnx import OPSET, export_onnx, open_session, require_extra
from simsc.files import cache_folder
from simsc.matching.features import Features
from simsc.models.model import SimSC


class OnnxEncoder:
    """Features by ONNX Runtime; files are exported on first use and kept in the cache folder.

    Args:
        model: prepared for inference; without a head.
        folder: where exported files go; None for the cache folder.
    """

    def __init__(self, model: SimSC, folder: Path | None = None) -> None:
        require_extra()
        if model.head.layers:
            raise ConfigError(f"runtime 'onnx' cannot run the head '{model.head_name}', which reads inner layers")
        self.model = model
        self.folder = folder or cache_folder() / "onnx"
        self.any_size = model.backbone.any_size
        self._fingerprint = fingerprint(model)
        self._sessions: dict[Size | None, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without open sessions, which do not travel between processes."""
        return {**vars(self), "_sessions": {}}

    def __call__(self, images: Tensor) -> Features:
        """Features of images ``(B, 3, H, W)`` in [0, 1]."""
        size = images.shape[-2], images.shape[-1]
        maps, beta = self._session(size).run(None, {"images": images.cpu().numpy()})
        device = images.device
        return Features(torch.from_numpy(maps).to(device), torch.from_numpy(beta).to(device), size)

    def _session(self, size: Size) -> Any:
        key = None if self.any_size else size
        if key not in self._sessions:
            path = self.folder / f"{self._fingerprint}-{'any' if key is None else f'{size[0]}x{size[1]}'}.onnx"
            if not path.is_file():
                export_onnx(self.model, path, part="encoder", size=size)
            self._sessions[key] = open_session(path)
        return self._sessions[key]


def fingerprint(model: SimSC) -> str:
    """Twelve hexadecimal digits that change with the network or its weights."""
    digest = hashlib.sha256(f"{model.backbone.spec.name} {model.temperature_name} {OPSET} {torch.__version__}".encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:12]
