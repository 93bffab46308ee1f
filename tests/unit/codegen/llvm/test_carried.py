"""A loop carries the register cells that it changes, and only those."""

from __future__ import annotations

import re

from codegen.host import cpu_target
from codegen.llvm.machine import emit_object, triple_of
from codegen.llvm.module import emit_module
from sketch.lang.expr import Expr, binary
from sketch.nest.loopnest import Allocate, BufferLoad, LoopNest, LoopVar, Scope, Store
from tests.support.nests import PARALLEL, SERIAL, UNROLLED, dense, loop, plus, reducer

TARGET = cpu_target("cpu-avx2", threads=1)
N, K, R = (LoopVar(name) for name in "nkr")
X = dense("x", (3, 5), Scope.INPUT)
OUT = dense("out", (3, 2), Scope.OUTPUT)
SUMS = dense("sums", (2,), Scope.LOCAL)


def nest(term: Expr) -> LoopNest:
    """Two sums that start as elements of x; a loop adds to the first one alone."""
    start = Store((SUMS,), (plus(R),), (BufferLoad(X, (plus(N), plus(R))),))
    update = Store((SUMS,), (plus(),), (term,), reducer())
    back = Store((OUT,), (plus(N), plus(R)), (BufferLoad(SUMS, (plus(R),)),))
    body = Allocate(
        SUMS,
        (
            loop(R, 2, UNROLLED, start),
            loop(K, 5, SERIAL, update, reduce=True),
            loop(R, 2, UNROLLED, back),
        ),
    )
    return LoopNest("two_sums", (X, OUT), (), (loop(N, 3, PARALLEL, body),))


READ = BufferLoad(X, (plus(N), plus(K)))


def carried(program: LoopNest) -> int:
    """How many sums the loop carries; LLVM refuses text that uses what it does not define."""
    text = emit_module(program, TARGET, "kernel", triple_of(TARGET)).text
    assert emit_object(text, TARGET)
    return len(re.findall(r"%c\d+ = phi float", text))


def test_a_cell_that_no_trip_changes_has_no_phi() -> None:
    assert carried(nest(READ)) == 1


def test_a_cell_that_trips_read_and_leave_keeps_its_name() -> None:
    assert carried(nest(binary("mul", READ, BufferLoad(SUMS, (plus(const=1),))))) == 2
