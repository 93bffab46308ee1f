"""Types of PTX as NumPy's: registers hold bits, instructions read them as their type says."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Bits = NDArray[Any]

_KINDS: Final = {
    "u8": np.uint8, "s8": np.int8, "b8": np.uint8,
    "u16": np.uint16, "s16": np.int16, "b16": np.uint16, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "f32": np.float32,
    "tf32": np.float32,
    "f16x2": np.uint32, "bf16x2": np.uint32,
    "u64": np.uint64, "s64": np.int64, "b64": np.uint64, "f64": np.float64,
    "pred": np.bool_,
}  # fmt: skip
_TYPES: Final = {name: np.dtype(kind) for name, kind in _KINDS.items()}
_UNSIGNED: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# What a register holds before it is written: NaN, -1.
POISON: Final = -1


def type_of(name: str) -> np.dtype[Any]:
    """NumPy's type of a PTX type such as ``s32``; raises KeyError on others."""
    return _TYPES[name]


def is_type(name: str) -> bool:
    """Whether a modifier of an instruction is a type."""
    return name in _KINDS


def is_float(name: str) -> bool:
    """Whether a type is a floating-point type."""
    return name in ("f16", "bf16", "tf32", "f32", "f64")


def bits_of(values: NDArray[Any]) -> Bits:
    """The values' bits, unsigned; predicates stay as they are."""
    if values.dtype == np.bool_:
        return values
    return values.view(_UNSIGNED[values.dtype.itemsize])


def as_type(bits: Bits, name: str) -> NDArray[Any]:
    """The lowest bits of a register, read as a type; narrower registers are zero-extended."""
    kind = type_of(name)
    if kind == np.bool_ or bits.dtype == np.bool_:
        return bits.astype(np.bool_)
    width = _UNSIGNED[kind.itemsize]
    return bits.astype(width, copy=False).view(kind)


def resized(bits: Bits, name: str) -> Bits:
    """Bits for a register declared with a type: zero-extended or cut."""
    kind = type_of(name)
    if kind == np.bool_:
        return bits.astype(np.bool_, copy=False)
    return bits.astype(_UNSIGNED[kind.itemsize], copy=False)


def constant(text: str, name: str) -> Bits:
    """The bits of an immediate operand, a single value."""
    if text.startswith(("0f", "0F")):
        value = np.array(int(text[2:], 16), np.uint32).view(np.float32)
        return bits_of(value.astype(type_of(name) if is_float(name) else np.float32))
    if text.startswith(("0d", "0D")):
        value = np.array(int(text[2:], 16), np.uint64).view(np.float64)
        return bits_of(value.astype(type_of(name) if is_float(name) else np.float64))
    number = int(text.rstrip("U"), 0)
    if name == "pred":
        return np.array(bool(number))
    width = 8 * type_of(name).itemsize
    return np.array(number % (1 << width), _UNSIGNED[width // 8])


def extended(values: NDArray[Any], kind: str) -> Bits:
    """A loaded value, sign-extended for signed types, as registers wider than it keep it."""
    if kind.startswith("s") and values.dtype.itemsize < 8:
        return values.astype(np.int64).view(np.uint64)
    return values.view(f"u{values.dtype.itemsize}")
