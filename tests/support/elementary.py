"""Elementary functions by themselves: a loop over arrays that calls one of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codegen.kernel import Kernel
from codegen.llvm.functions.operations import FloatOperations
from codegen.llvm.jit import call, load
from codegen.llvm.machine import emit_object, triple_of
from codegen.llvm.writer import Writer
from sketch.target.target import Target

COUNT = 4096
Make = Callable[[Writer, int], FloatOperations]
"""Makes the operations of one vector width."""


def run(make: Make, name: str, target: Target, width: int, *operands: np.ndarray) -> np.ndarray:
    """A function of ``COUNT`` elements of one or two arrays."""
    library = load([_compiled(make, name, target, width, len(operands))])
    result = np.zeros(COUNT, operands[0].dtype)
    call(library.address("f"), [*operands, result], np.zeros(1, np.uint8))
    return result


def _compiled(make: Make, name: str, target: Target, width: int, arity: int) -> Kernel:
    writer = Writer()
    lanes = make(writer, width)
    kind, scalar = lanes.float, lanes.scalar
    writer.lines = ["entry:"]
    for n in range(arity + 1):
        writer.lines += [
            f"  %s{n} = getelementptr ptr, ptr %args, i64 {n}",
            f"  %a{n} = load ptr, ptr %s{n}",
        ]
    writer.lines += ["  br label %loop", "loop:", "  %i = phi i64 [0, %entry], [%next, %loop]"]
    for n in range(arity):
        writer.lines += [
            f"  %p{n} = getelementptr {scalar}, ptr %a{n}, i64 %i",
            f"  %x{n} = load {kind}, ptr %p{n}, align 4",
        ]
    result = getattr(lanes, name)(*(f"%x{n}" for n in range(arity)))
    writer.lines += [
        f"  %q = getelementptr {scalar}, ptr %a{arity}, i64 %i",
        f"  store {kind} {result}, ptr %q, align 4",
        f"  %next = add i64 %i, {max(width, 1)}",
        f"  %more = icmp slt i64 %next, {COUNT}",
        "  br i1 %more, label %loop, label %done",
        "done:",
        "  ret void",
    ]
    writer.finish_function("void @f(ptr %args)", "nounwind")
    code = emit_object(writer.text(triple_of(target)), target)
    return Kernel("f", "f", code, (), 0, target, 0)


def check_remainders(
    remainders: Callable[[int], np.ndarray], x: np.ndarray, y: np.ndarray, lanes: int
) -> None:
    """``fmod``, by width, is NumPy's to the bit but for the bits of NaN."""
    with np.errstate(invalid="ignore"):
        exact = np.fmod(x, y)
    numbers = ~np.isnan(exact)
    for width in (0, lanes):
        result = remainders(width)
        np.testing.assert_array_equal(result, exact)
        np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(exact[numbers]))
