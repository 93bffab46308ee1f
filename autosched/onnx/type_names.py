"""What ONNX calls the types of tensors; no package is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Where ONNX's name of an element type is not NumPy's without underscores.
_NAMES: Final[Mapping[str, str]] = {
    "float32": "float",
    "float64": "double",
    "object": "string",
    "float4_e2m1fn": "float4e2m1",
    "float8_e8m0fnu": "float8e8m0",
}


_DTYPES: Final = {name: dtype for dtype, name in _NAMES.items()}


def numpy_name(kind: str) -> str:
    """``float32`` for ``tensor(float)``: the inverse of ``onnx_type``, but for underscores."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return _DTYPES.get(name, name)


def onnx_type(dtype: str) -> str:
    """``tensor(float)`` for ``float32``."""
    return f"tensor({_NAMES.get(dtype, dtype.replace('_', ''))})"
