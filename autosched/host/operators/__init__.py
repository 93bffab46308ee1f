"""Operators of the host evaluator that onnx has not, or not as the standard says."""
