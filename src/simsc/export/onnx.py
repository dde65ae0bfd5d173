"""ONNX files, checked against PyTorch before they are written."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from simsc.coordinates import Size
from simsc.errors import ConfigError, SimscError, unknown_name
from simsc.export.graphs import EncoderGraph, MatcherGraph, sample_inputs
from simsc.files import atomic_path
from simsc.models.model import SimSC
from simsc.models.trained import Trained

OPSET = 18
TOLERANCE = 1e-4
PARTS: dict[str, type[EncoderGraph | MatcherGraph]] = {"encoder": EncoderGraph, "matcher": MatcherGraph}


class ExportError(SimscError):
    """A model that cannot be exported, or whose export computes something else."""


@dataclass(frozen=True)
class Exported:
    """A file that was written.

    Attributes:
        path: of the file.
        differences: largest difference to PyTorch by output, relative to the output's largest value (at least 1).
    """

    path: Path
    differences: dict[str, float]


def export_onnx(
    model: SimSC | Trained,
    path: str | Path,
    *,
    part: str = "matcher",
    size: Size | None = None,
    tolerance: float = TOLERANCE,
) -> Exported:
    """Write an ONNX file and check it against PyTorch on inputs it was not traced with.

    Args:
        model: ready for inference, see :meth:`simsc.models.trained.Trained.ready`; the file computes with its
            localiser and evaluation temperature.
        path: of the file.
        part: ``encoder`` (backbone and temperature) or ``matcher`` (two images and points to matches).
        size: ``(height, width)`` of the input, None for the model's own; batch and number of points stay free, for the
            encoder of a ResNet height and width too.
        tolerance: a larger difference is an error, and nothing is written.
    """
    if part not in PARTS:
        raise ConfigError(unknown_name("part", part, PARTS))
    require_extra()
    trained = Trained.of(model)
    backbone = trained.network.backbone
    size = size or (trained.image_size, trained.image_size)
    backbone.check_size(size)
    graph = PARTS[part](trained).eval()
    with atomic_path(path) as temporary:
        _trace(graph, temporary, size, free_size=part == "encoder" and backbone.any_size)
        differences = compare(graph, temporary, size)
        if not max(differences.values()) <= tolerance:  # also true for NaN
            raise ExportError(f"{path}: differs from PyTorch by {differences}, more than {tolerance:g}; not written")
    return Exported(Path(path), differences)


def compare(graph: EncoderGraph | MatcherGraph, path: Path, size: Size) -> dict[str, float]:
    """Largest relative difference between what PyTorch computes without the graph and its ONNX file, by output."""
    inputs = sample_inputs(graph, size, batch=3, points=7, seed=1)
    with torch.inference_mode():
        expected = graph.expected(*inputs)
    session = open_session(path)
    names: Any = graph.inputs
    found = session.run(None, {name: value.numpy() for name, value in zip(names, inputs, strict=True)})
    outputs: Any = graph.outputs
    return {
        name: _difference(actual, wanted.numpy()) for name, actual, wanted in zip(outputs, found, expected, strict=True)
    }


def open_session(path: Path) -> Any:
    """An ONNX Runtime session on the CPU, or on CUDA where the runtime has it."""
    require_extra()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
    available = [name for name in wanted if name in onnxruntime.get_available_providers()]
    return onnxruntime.InferenceSession(str(path), options, providers=available)


def require_extra() -> None:
    """Refuse with a sentence where the extra is not installed."""
    try:
        import onnx
        import onnxruntime
        import onnxscript
    except ImportError:
        raise ConfigError("ONNX needs the extra 'export': pip install 'simsc[export]'") from None
    del onnx, onnxruntime, onnxscript


def _trace(graph: nn.Module, path: Path, size: Size, free_size: bool) -> None:
    inputs = sample_inputs(graph, size)
    batch, points = torch.export.Dim("batch"), torch.export.Dim("points")
    image: dict[int, Any] = {0: batch}
    if free_size:
        image |= {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    shapes = (image,) if len(inputs) == 1 else (image, image, {0: batch, 1: points})
    names: Any = graph.inputs
    outputs: Any = graph.outputs
    with _quiet():
        torch.onnx.export(
            graph,
            inputs,
            str(path),
            input_names=list(names),
            output_names=list(outputs),
            dynamic_shapes=shapes,
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter reports its progress on stdout, where results belong."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _difference(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual - expected).max() / max(float(np.abs(expected).max()), 1.0))
