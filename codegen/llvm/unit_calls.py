"""Instructions of tensor units: LLVM's names and types for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from codegen.llvm.writer import Writer
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Binary
from sketch.nest.loopnest import LoopNest, Scope
from sketch.nest.walk import stores
from sketch.target.units import UNITS


@dataclass(frozen=True, slots=True)
class UnitCall:
    """An intrinsic: its name, the vector of accumulators, and that of both operands."""

    name: str
    acc: str
    operand: str


# Both operands are vectors of 32-bit lanes in the nest, whatever elements are in a lane.
UNIT_CALLS: Final[Mapping[str, UnitCall]] = {
    f"{name}.{bits}": UnitCall(
        f"llvm.x86.{call}.{bits}", f"<{bits // 32} x {acc}>", f"<{bits // size} x {element}>"
    )
    for name, call, acc, element, size in (
        ("vpdpbusd", "avx512.vpdpbusd", "i32", "i8", 8),
        ("vpdpwssd", "avx512.vpdpwssd", "i32", "i16", 16),
        ("vdpbf16ps", "avx512bf16.dpbf16ps", "float", "bfloat", 16),
    )
    for bits in (256, 512)
} | {
    f"{name}.{bits}": UnitCall(
        f"llvm.{call}", f"<{bits // 32} x {acc}>", f"<{bits // size} x {element}>"
    )
    for name, bits, call, acc, element, size in (
        ("vpdpbssd", 256, "x86.avx2.vpdpbssd.256", "i32", "i8", 8),
        ("sdot", 128, "aarch64.neon.sdot.v4i32.v16i8", "i32", "i8", 8),
        ("usdot", 128, "aarch64.neon.usdot.v4i32.v16i8", "i32", "i8", 8),
        ("bfdot", 128, "aarch64.neon.bfdot.v4f32.v8bf16", "float", "bfloat", 16),
        ("smmla", 128, "aarch64.neon.smmla.v4i32.v16i8", "i32", "i8", 8),
        ("ummla", 128, "aarch64.neon.ummla.v4i32.v16i8", "i32", "i8", 8),
        ("usmmla", 128, "aarch64.neon.usmmla.v4i32.v16i8", "i32", "i8", 8),
        ("bfmmla", 128, "aarch64.neon.bfmmla", "float", "bfloat", 16),
    )
}

# By the elements of both operands: registers of the result and of both operands, by number.
TILE_CALLS: Final[Mapping[tuple[str, str], str]] = {
    (unit.lhs, unit.rhs): f"llvm.x86.{unit.name}" for unit in UNITS if unit.tiles
}


def has_float_units(nest: LoopNest) -> bool:
    """Whether a nest has instructions that count denormal numbers as 0."""
    values = [value for store, _ in stores(nest.roots) for value in store.values]
    targets = (target for store, _ in stores(nest.roots) for target in store.targets)
    if any(target.scope is Scope.TILE and is_float(target.dtype) for target in targets):
        return True
    found = (value.op for value in values if isinstance(value, Binary))
    return any(op in UNIT_CALLS and "float" in UNIT_CALLS[op].acc for op in found)


def unit_call(writer: Writer, unit: str, operands: tuple[str, str, str]) -> str:
    """The accumulators after an instruction.

    Args:
        writer: of the function.
        unit: name of the tensor unit.
        operands: accumulators, and both factors as vectors of int32.
    """
    call = UNIT_CALLS[unit]
    acc, *factors = operands
    words = call.acc.replace("float", "i32")
    casts = [writer.emit_free(f"bitcast {words} {f} to {call.operand}") for f in factors]
    writer.declare(call.name, f"{call.acc} {{}}({call.acc}, {call.operand}, {call.operand})")
    parts = ", ".join(f"{call.operand} {part}" for part in casts)
    return writer.emit(f"call {call.acc} @{call.name}({call.acc} {acc}, {parts})")
