"""Points of a thread in several rounds: the fixed steps are those of decoding each point."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import pytest

from codegen.cuda.device import Binding, Cooperative, For
from codegen.cuda.rounds import RoundPart, parts_of, unrolling
from sketch.lang.expr import Const, Expr
from sketch.nest.loopnest import Affine, Buffer, BufferLoad, LoopVar, Scope, Store

Extents = tuple[int, ...]


def bindings_of(extents: Extents) -> tuple[Binding, ...]:
    """Variables that grow by 1, 2, 3, ... a trip."""
    return tuple(Binding(LoopVar(f"v{n}"), extent, n + 1) for n, extent in enumerate(extents))


def value_of(part: RoundPart, thread: int, turn: int) -> int:
    known = {"thread": thread, "round": turn}
    first = eval(part.first.replace("/", "//") or "0", {}, known)
    assert isinstance(first, int)
    return first + part.step * int(eval(part.turn.replace("/", "//") or "0", {}, known))


def decoded(bindings: tuple[Binding, ...], point: int) -> list[int]:
    values = []
    for binding in reversed(bindings):
        values.append(point % binding.extent * binding.stride)
        point //= binding.extent
    return values[::-1]


@pytest.mark.parametrize(
    ("extents", "threads"),
    [((64, 8), 128), ((4, 32), 32), ((4, 32), 16), ((3, 8, 4), 16), ((2, 3, 16), 16), ((30,), 10),
     ((5, 2, 4), 1), ((6, 4, 2), 24), ((16, 8), 128)],
)  # fmt: skip
def test_parts_are_the_values_of_each_point(extents: Extents, threads: int) -> None:
    bindings = bindings_of(extents)
    parts = parts_of(bindings, threads, "thread")
    assert parts is not None
    count = 1
    for extent in extents:
        count *= extent
    for turn in range(count // threads):
        for thread in range(threads):
            found = [value_of(part, thread, turn) for part in parts]
            assert found == decoded(bindings, thread + threads * turn)


@pytest.mark.parametrize(("extents", "threads"), [((8, 6), 16), ((4, 6, 2), 8), ((64, 5), 32)])
def test_rounds_that_cut_across_variables_have_no_fixed_steps(
    extents: Extents, threads: int
) -> None:
    assert parts_of(bindings_of(extents), threads, "thread") is None


def test_rounds_that_a_thread_computes_by_long_code_are_not_copied() -> None:
    assert unrolling(8, [Cooperative((), ())]) == "#pragma unroll"
    assert unrolling(40, [Cooperative((), ())]) == "#pragma unroll 4"
    transform = For(LoopVar("i"), 4, 1, True, (), ())
    assert unrolling(8, [Cooperative((), ()), Cooperative((), (transform,))]) == "#pragma unroll 1"


@pytest.mark.parametrize(("elements", "most"), [(1, ""), (2, ""), (4, " 4"), (8, " 2"), (40, " 1")])
def test_rounds_that_read_several_elements_are_copied_less_often(elements: int, most: str) -> None:
    """As many loads are under way; more of them would take the registers of the results."""
    data = Buffer("x", "float32", (64,), (1,), (1,), Scope.INPUT, 64)
    loads = [BufferLoad(data, (Affine((), n),)) for n in range(elements)]
    tile = replace(data, name="tile", scope=Scope.SHARED)
    zero: Expr = Const(0.0, "float32")
    fill = Store((tile,), (Affine(()),), (reduce(add, loads, zero),))
    assert unrolling(8, [Cooperative((), (fill,))]) == f"#pragma unroll{most}"
