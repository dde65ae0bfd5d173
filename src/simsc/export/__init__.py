"""Models for other runtimes."""

from simsc.export.onnx import export_onnx

__all__ = ["export_onnx"]
