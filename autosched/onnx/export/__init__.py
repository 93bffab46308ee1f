"""Networks as ONNX models, to run them in other runtimes."""

from autosched.onnx.export.model import to_onnx

__all__ = ["to_onnx"]
