"""Names of the domains of operators that onnxruntime defines."""

from __future__ import annotations

from typing import Final

LEARNED: Final = "ai.onnx.ml"  # trees, support vectors, scalers ...
CONTRIB: Final = "com.microsoft"  # its own operators, of which onnx's reference has none
