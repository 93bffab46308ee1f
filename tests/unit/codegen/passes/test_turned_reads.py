"""Functions of what is transposed on the way read whole vectors, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.build import emit
from codegen.passes.turned_reads import turned_reads
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Const, Expr, binary, select
from sketch.lang.functions import exp, maximum
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.nest.loopnest import BufferLoad, LoopNest, LoopVar, Predicate, Scope, Store
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.cpu_targets import runnable
from tests.support.nests import SERIAL, VECTORIZED, dense, execute, loop, plus
from tests.support.pass_effects import copies_for_same_bits, turned_copies

TARGET = runnable()[0]
Function = Callable[[Expr, Expr, Expr], Expr]
# Of an element, a number of its channel, and an element of another transposed array.
FUNCTIONS: dict[str, Function] = {
    "affine": lambda x, c, _: maximum(x * c + c, 0),
    "sigmoid": lambda x, c, _: x / (exp(-x) + 1) * c,
    "sum of two": lambda x, _, y: x + y,
    "of one twice": lambda x, c, _: select(x > c, x * 2, x - 1),
    "guarded": lambda x, c, y: select(c > 0, y, x + 1),
    "integers": lambda x, c, y: binary("max", x, y) - c,
}


def turned(function: Function, shape: tuple[int, int, int], dtype: str = "float32") -> ComputeDAG:
    """``Y[h, w, c] = function(X[c, h, w], C[c], Z[c, h, w])``."""
    h, w, c = shape
    data, more = (placeholder((c, h, w), name=name, dtype=dtype) for name in "XZ")
    factor = placeholder((c,), name="C", dtype=dtype)
    result = compute(
        shape, lambda i, j, k: function(data[k, i, j], factor[k], more[k, i, j]), name="Y"
    )
    return ComputeDAG([result])


def copies(dag: ComputeDAG, seeds: int = 6) -> int:
    """Of some programs."""
    return sum(copies_for_same_bits(dag, TARGET, seed, "turned_reads") for seed in range(seeds))


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"guarded"}))
def test_channels_go_to_the_end(name: str) -> None:
    dtype = "int32" if name == "integers" else "float32"
    assert copies(turned(FUNCTIONS[name], (6, 32, 48), dtype))


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 70), st.integers(1, 70)),
    st.sampled_from(sorted(FUNCTIONS)),
    st.integers(0, 999),
)
def test_any_image(shape: tuple[int, int, int], name: str, seed: int) -> None:
    copies_for_same_bits(turned(FUNCTIONS[name], shape), TARGET, seed, "turned_reads")


def test_plain_copies_and_wide_elements_stay() -> None:
    assert not copies(turned(lambda x, *_: x, (6, 32, 48)))
    assert not copies(turned(FUNCTIONS["affine"], (6, 32, 48), "float64"))


def test_what_a_condition_guards_is_read_where_it_holds() -> None:
    assert not copies(turned(FUNCTIONS["guarded"], (6, 32, 48)))


def test_lanes_read_neighbours() -> None:
    dag = turned(FUNCTIONS["affine"], (6, 31, 64))
    (sketch,) = generate(dag, TARGET)
    row = sample(sketch, 1, np.random.default_rng(1)).row(0)
    row |= {decision: 31 for decision in row if decision.axis == 1}  # type: ignore[union-attr]
    text = emit(lower(sketch, row), TARGET, "f").text
    assert "shufflevector" in text and "gather" not in text


@pytest.mark.parametrize("end", [64, 35, 31, 16, 13, 8, 3])
def test_tiles_that_begin_behind_the_end_are_left_out(end: int) -> None:
    lanes, step = TARGET.lanes(), 8
    x, y = dense("x", (lanes, 64), Scope.INPUT), dense("y", (end, lanes), Scope.OUTPUT)
    outer, start, i, c = (LoopVar(name) for name in ("outer", "start", "i", "c"))
    at = plus(outer, start, i)
    inside = (Predicate(at, 0, end),)
    value = binary("add", BufferLoad(x, (plus(c), at)), Const(1.0, "float32"))
    store = Store((y,), (at, plus(c)), (value,), predicates=inside)
    columns = replace(loop(i, step, SERIAL, loop(c, lanes, VECTORIZED, store)), clip=inside)
    tiles = loop(start, 4, SERIAL, columns, step=step)
    nest = LoopNest("tiles", (x, y), (), (loop(outer, 2, SERIAL, tiles, step=32),))
    assert turned_copies(turned_reads(nest, TARGET)) == 1 + (end % step >= 4)
    values = np.arange(lanes * 64, dtype=np.float32).reshape(lanes, 64)
    found = execute(nest, {"x": values}, TARGET)["y"].reshape(end, lanes)
    np.testing.assert_array_equal(found, values[:, :end].T + 1)
