"""Damaged files: logs by value, saved modules, ONNX models."""
