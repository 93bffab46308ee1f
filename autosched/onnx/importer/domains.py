"""The names of ONNX's default domain, and the opset of it that a model or a function imports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import onnx

DEFAULT_DOMAINS: Final = ("", "ai.onnx")


def opset_of(imports: Iterable[onnx.OperatorSetIdProto]) -> int:
    """Version of the default operator set; 0 if it is not imported."""
    return max((entry.version for entry in imports if entry.domain in DEFAULT_DOMAINS), default=0)
