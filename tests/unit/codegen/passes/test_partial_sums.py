"""Long sums are accumulated in blocks; everything else is left as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from codegen.passes.legalize import legalize
from codegen.passes.partial_sums import partial_sums
from codegen.passes.simplify import simplify
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Const, Expr, Reducer, Var, select, unary
from sketch.lang.functions import maximum
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import (
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopNest,
    LoopVar,
    Node,
    Scope,
    Store,
)
from sketch.nest.printer import print_nest
from sketch.nest.walk import walk
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.loop import LoopId
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Reorder, Split
from sketch.target.target import Target
from tests.support.compiled import check_run
from tests.support.cpu_targets import runnable
from tests.support.nests import (
    SERIAL,
    UNROLLED,
    VECTORIZED,
    conv_arrays,
    dense,
    loop,
    matmul,
    plus,
    reducer,
)

TARGET = Target("cpu", "invented", vector_bytes=16, registers=16, fma_accumulators=4)
Golden = Callable[[str, str], None]


def column_sums(rows: int) -> LoopNest:
    """y[j] += x[k, j]: straight into memory, two vectors of four lanes."""
    k, v, lane = LoopVar("k"), LoopVar("v"), LoopVar("lane")
    x, y = dense("x", (rows, 8), Scope.INPUT), dense("y", (8,), Scope.OUTPUT)
    zero = Store((y,), (plus(v, lane),), (reducer().identity[0],))
    update = Store((y,), (plus(v, lane),), (BufferLoad(x, (plus(k), plus(v, lane))),), reducer())

    def cells(body: Node) -> Loop:
        return loop(v, 2, UNROLLED, loop(lane, 4, VECTORIZED, body), step=4)

    nest = (cells(zero), loop(k, rows, SERIAL, cells(update), reduce=True))
    return LoopNest("column_sums", (x, y), (), nest)


@pytest.mark.parametrize("rows", [16, 64, 300])
def test_golden(rows: int, golden: Golden) -> None:
    nest = column_sums(rows)
    text = f"before\n{print_nest(nest)}\nafter\n{print_nest(partial_sums(nest, TARGET))}"
    golden(f"column_sums_{rows}", text)


def chains(
    nodes: tuple[Node, ...], trips: int = 1, born: Mapping[Buffer, int] | None = None
) -> Iterator[int]:
    """For each statement that reduces: how many values it adds to a cell, one after another.

    ``trips``: of the reduce loops around; ``born``: of those around a private buffer.
    """
    known = dict(born or {})
    for node in nodes:
        match node:
            case Store():
                if node.reducer is not None:
                    yield trips // known.get(node.targets[0], 1)
            case Loop():
                inner = trips * int(node.extent) if node.axis_kind == "reduce" else trips
                yield from chains(node.body, inner, known)
            case Allocate():
                yield from chains(node.body, trips, {**known, node.buffer: trips})
            case _:
                raise AssertionError(node)


@pytest.mark.parametrize("rows", [17, 97, 1000, 4096, 65537])
def test_chains_are_short_whatever_the_length(rows: int) -> None:
    nest = partial_sums(column_sums(rows), TARGET)
    lengths = list(chains(nest.roots))
    assert len(lengths) > 1
    assert max(lengths) <= 16


def prepared(dag: ComputeDAG, target: Target, seed: int) -> Iterator[LoopNest]:
    rng = np.random.default_rng(seed)
    for sketch in generate(dag, target):
        row = sample(sketch, 1, rng).row(0)
        yield legalize(simplify(lower(sketch, row)), target)


def test_copies_of_outputs_are_filled_no_further_than_these_go() -> None:
    x, k = placeholder((7, 40), name="X"), reduce_axis(40, "k")
    dag = ComputeDAG([compute((7,), lambda i: reducers.sum(x[i, k], k), name="Y")])
    stage, i, terms = StageId(0), 0, 1
    loops = tuple(LoopId(axis, level) for level in (0, 1) for axis in (terms, i))
    steps = (Split(stage, i, (4,)), Split(stage, terms, (4,)), Reorder(stage, loops))
    nest = simplify(lower(Sketch(dag, steps, TARGET), {}))
    blocked = partial_sums(nest, TARGET)
    assert any(isinstance(node, Allocate) for node in walk(blocked.roots))
    data = np.arange(280, dtype=np.float32).reshape(7, 40)
    assert (run_nest(blocked, {"X": data})["Y"] == data.sum(axis=1)).all()


def over(
    data: Tensor, term: Callable[[Expr], Expr], reduction: Callable[..., Expr], rows: int = 3
) -> ComputeDAG:
    k = reduce_axis(5000, "k")
    return ComputeDAG([compute((rows,), lambda i: reduction(term(data[i, k]), k), name="Y")])


EXACT = {
    "maximum": over(placeholder((3, 5000), name="X"), lambda x: x, reducers.max),
    "integers": over(placeholder((3, 5000), dtype="int32", name="X"), lambda x: x, reducers.sum),
    "product": over(placeholder((3, 5000), name="X"), lambda x: x, reducers.prod),
}


@pytest.mark.parametrize("name", sorted(EXACT))
def test_reductions_that_do_not_add_floats_stay(name: str) -> None:
    for nest in prepared(EXACT[name], TARGET, 0):
        assert partial_sums(nest, TARGET).roots is nest.roots


def test_register_tiles_of_short_products_stay() -> None:
    nest = legalize(simplify(matmul(7, 10, 128, rows=3, vectors=2, lanes=4)), TARGET)
    assert partial_sums(nest, TARGET).roots is nest.roots


@pytest.mark.parametrize("short", [False, True])
def test_long_products_are_summed_in_blocks(rng: np.random.Generator, short: bool) -> None:
    nest = legalize(simplify(matmul(4, 10, 300, rows=3, vectors=2, lanes=4)), TARGET)
    nest = replace(nest, short_sums=short)
    blocked = partial_sums(nest, TARGET)
    assert blocked.roots is not nest.roots
    arrays = conv_arrays(nest, rng)
    expected = run_nest(nest, arrays)
    for name, values in run_nest(blocked, arrays).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-4)
    assert sum(isinstance(node, Allocate) for node in walk(blocked.roots)) > sum(
        isinstance(node, Allocate) for node in walk(nest.roots)
    )


@pytest.mark.parametrize(("short", "most"), [(False, 128), (True, 64)])
@pytest.mark.parametrize("terms", [129, 300, 2048, 5000])
def test_chains_of_products_are_short(terms: int, short: bool, most: int) -> None:
    nest = legalize(simplify(matmul(3, 8, terms, rows=3, vectors=2, lanes=4)), TARGET)
    blocked = partial_sums(replace(nest, short_sums=short), TARGET)
    lengths = list(chains(blocked.roots))
    assert len(lengths) > 1
    assert most // 2 < max(lengths) <= most


def test_products_that_are_subtracted_from_each_other_are_summed_in_short_blocks() -> None:
    data, weight = placeholder((2, 6, 400), name="X"), placeholder((400, 16), name="W")
    k = reduce_axis(400, "k")
    products = compute(
        (2, 6, 16), lambda r, i, j: reducers.sum(data[r, i, k] * weight[k, j], axis=k), name="P"
    )
    dag = ComputeDAG([compute((6, 16), lambda i, j: products[0, i, j] - products[1, i, j])])
    for nest in prepared(dag, TARGET, 0):
        assert max(chains(partial_sums(nest, TARGET).roots)) <= 32


def log_sum_exp() -> Reducer:
    """Pairs (maximum, sum of exponentials relative to it)."""
    lhs = (Var("lhs_top", "float32"), Var("lhs_sum", "float32"))
    rhs = (Var("rhs_top", "float32"), Var("rhs_sum", "float32"))
    top = maximum(lhs[0], rhs[0])

    def scaled(pair: tuple[Var, Var]) -> Expr:
        return select(pair[0] < top, pair[1] * unary("exp", pair[0] - top), pair[1])

    identity = (Const(float("-inf"), "float32"), Const(0.0, "float32"))
    return Reducer("log_sum_exp", lhs, rhs, (top, scaled(lhs) + scaled(rhs)), identity)


@pytest.mark.parametrize("choice", range(4))
@pytest.mark.parametrize("shape", [(1, 4097), (5, 700), (40, 650)], ids=str)
def test_tuple_reducers_that_add(shape: tuple[int, int], choice: int) -> None:
    rng = np.random.default_rng(choice)
    data, k = placeholder(shape, name="X"), reduce_axis(shape[1], "k")

    def element(i: Expr) -> Expr:
        return reducers.reduce(log_sum_exp(), (data[i, k], Const(1.0, "float32")), k)

    dag = ComputeDAG(list(compute((shape[0],), element, name="Y")))
    target = runnable()[choice % len(runnable())].with_threads(1 + choice % 2)
    nests = list(prepared(dag, target, choice))
    assert any(partial_sums(nest, target).roots is not nest.roots for nest in nests)
    inputs = {"X": rng.uniform(0, 3, shape).astype("f4")}
    check_run(dag, inputs, target, choice, choice)
