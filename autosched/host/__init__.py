"""Operators that run on the host: in onnx's evaluator or in onnxruntime."""
