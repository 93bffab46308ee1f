"""The names of ONNX's default domain and of onnxruntime's, and the opset that is imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import onnx

DEFAULT_DOMAINS: Final = ("", "ai.onnx")
CONTRIB: Final = "com.microsoft"  # onnxruntime's own operators


def opset_of(imports: Iterable[onnx.OperatorSetIdProto]) -> int:
    """Version of the default operator set; 0 if it is not imported."""
    return max((entry.version for entry in imports if entry.domain in DEFAULT_DOMAINS), default=0)
