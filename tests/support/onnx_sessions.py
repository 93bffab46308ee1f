"""Sessions of ONNX Runtime that compute what tests compare with."""

from __future__ import annotations

from typing import Any

import pytest


def reference_session(model: bytes | str) -> Any:
    """A session of a serialized model or of a file, on the caller's thread alone.

    Its own threads would spin between operators while other tests need the cores.
    """
    runtime = pytest.importorskip("onnxruntime", reason="results are compared with ONNX Runtime's")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
