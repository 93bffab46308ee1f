"""ONNX models, in and out."""
