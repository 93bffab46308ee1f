"""Independent chains of one vector instruction: the most that a thread can do of it in a second."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from codegen.kernel import Kernel
from codegen.llvm.jit import Library, load
from codegen.llvm.machine import emit_object
from codegen.llvm.unit_calls import UNIT_CALLS
from sketch.lang.dtypes import is_float, size_of
from sketch.target.target import Target
from sketch.target.units import TensorUnit

# Covers 4-5 cycles of latency on two units; with their operands they fit 16 registers.
CHAINS: Final = 12
_SYMBOL: Final = "chains"


@dataclass(frozen=True, slots=True)
class ChainedInstruction:
    """A vector instruction that adds to its first operand.

    Attributes:
        intrinsic: LLVM's name of it, without the @.
        vector, element: types of the first operand, which is also the result, and of its lanes.
        operands: type and value of each other operand.
        join: the instruction that combines two results, so that each of them is used.
        operations: multiplications and additions of one execution.
    """

    intrinsic: str
    vector: str
    element: str
    operands: tuple[tuple[str, str], ...]
    join: str
    operations: float


def multiply_add(lanes: int) -> ChainedInstruction:
    """A fused multiply-add of ``lanes`` float32."""
    vector = f"<{lanes} x float>"
    # from 0, x / 2 + 1 tends to 2: no overflow, no denormal numbers
    operands = tuple((vector, f"splat (float {_exact(value)})") for value in (0.5, 1.0))
    return ChainedInstruction(f"llvm.fma.v{lanes}f32", vector, "float", operands, "fadd", 2 * lanes)


def unit_product(unit: TensorUnit) -> ChainedInstruction:
    """The instruction of a tensor unit, on ones."""
    call = UNIT_CALLS[unit.name]
    kind, join = ("float", "fadd") if is_float(unit.acc) else ("i32", "xor")
    element = "bfloat 1.0" if is_float(unit.lhs) else f"i{8 * size_of(unit.lhs)} 1"
    operand = (call.operand, f"splat ({element})")
    operations = 2.0 * unit.m * unit.n * unit.k
    return ChainedInstruction(call.name, call.acc, kind, (operand, operand), join, operations)


def load_chains(
    instruction: ChainedInstruction, target: Target
) -> tuple[Library, Callable[[int], object]]:
    """A function of trips, which executes ``CHAINS`` instructions in each of them.

    It gives up Python's lock, and lives as long as its library.
    """
    text = chains_text(instruction)
    kernel = Kernel(_SYMBOL, _SYMBOL, emit_object(text, target), (), 0, target, CHAINS)
    library = load([kernel])
    return library, ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.address(_SYMBOL))


def chains_text(instruction: ChainedInstruction) -> str:
    """LLVM IR of the function, from trips (int64) to one element."""
    vector, name, chains = instruction.vector, instruction.intrinsic, range(CHAINS)
    types = ", ".join(kind for kind, _ in instruction.operands)
    operands = ", ".join(f"{kind} {value}" for kind, value in instruction.operands)
    joined = [
        f"  %s{c} = {instruction.join} {vector} {'%y0' if c == 1 else f'%s{c - 1}'}, %y{c}"
        for c in chains[1:]
    ]
    return "\n".join([
        f"declare {vector} @{name}({vector}, {types})",
        f"define {instruction.element} @{_SYMBOL}(i64 %trips) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *(f"  %x{c} = phi {vector} [zeroinitializer, %entry], [%y{c}, %loop]" for c in chains),
        *(f"  %y{c} = call {vector} @{name}({vector} %x{c}, {operands})" for c in chains),
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %trips",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *joined,
        f"  %result = extractelement {vector} %s{CHAINS - 1}, i32 0",
        f"  ret {instruction.element} %result",
        "}",
    ])  # fmt: skip


def _exact(value: float) -> str:
    """LLVM's exact spelling of a float constant."""
    return f"0x{np.float64(value).view(np.uint64):016X}"
