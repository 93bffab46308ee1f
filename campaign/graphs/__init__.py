"""Random ONNX graphs against onnxruntime, with onnx's reference evaluator as the judge."""
