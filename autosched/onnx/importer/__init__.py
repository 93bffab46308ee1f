"""ONNX models as networks; the only package that imports ``onnx`` to read a model."""

from autosched.onnx.importer.importer import from_onnx

__all__ = ["from_onnx"]
