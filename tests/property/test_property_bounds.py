"""Programs whose tiles, lanes and regions overrun: no kernel touches memory that is not its own.

Kernels run between guard pages (tests/support/guard_pages.py), on every instruction set of this
machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Expr, select
from sketch.lang.functions import all_of, maximum, minimum
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.scan import cumulative
from tests.support.compiled import check_run
from tests.support.cpu_targets import runnable
from tests.support.examples import examples
from tests.support.odd_names import renamed

TARGETS = [*runnable(), runnable()[0].with_threads(2)]
EXTENTS = st.sampled_from([1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 37, 53])
SMALL = st.integers(1, 4)
COMMON = examples(
    50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
RUNS = (st.integers(0, len(TARGETS) - 1), st.integers(0, 47), st.integers(0, 2**32 - 1))


def arrays_of(dag: ComputeDAG, seed: int) -> dict[str, np.ndarray]:
    """Random arguments; integers are any numbers, as data that are used as indices may be."""
    rng = np.random.default_rng(seed)
    return {
        t.name: rng.standard_normal(t.shape).astype(np.float32)
        if t.dtype == "float32"
        else rng.integers(-(2**31), 2**31, t.shape).astype(t.dtype)
        for t in dag.inputs
    }


def check(dag: ComputeDAG, target: int, choice: int, seed: int) -> None:
    check_run(dag, arrays_of(dag, seed), TARGETS[target], choice, seed)


def quasi_index(draw: Any, axes: list[Expr], extents: list[int]) -> tuple[Expr, int]:
    """A random index with ``//`` or ``%``, and the least extent that contains it."""
    form: Expr | int = draw(st.integers(0, 3))
    values = np.full(extents, form)
    for axis, grid in zip(axes, np.indices(extents), strict=True):
        factor = draw(st.integers(-3, 5))
        shift = -factor * (extents[axes.index(axis)] - 1) if factor < 0 else 0
        form, values = axis * factor + (form + shift), values + grid * factor + shift
    divisor = draw(st.integers(1, 9))
    match draw(st.sampled_from(["//", "%", "// %", "plain"])):
        case "//":
            form, values = form // divisor, values // divisor
        case "%":
            form, values = form % divisor, values % divisor
        case "// %":
            other = draw(st.integers(1, 5))
            form, values = form // divisor % other, values // divisor % other
    assert isinstance(form, Expr)
    return form, int(values.max()) + 1


@st.composite
def quasi_affine(draw: Any) -> ComputeDAG:
    """An element for each point, read at quasi-affine indices; maybe summed, maybe used again."""
    extents = draw(st.lists(EXTENTS, min_size=1, max_size=2))
    over = reduce_axis(draw(SMALL), "k")
    tensors: list[Tensor] = []

    def element(*axes: Expr) -> Expr:
        inner = [*axes, over] if draw(st.booleans()) else list(axes)
        sizes = [*extents, over.extent][: len(inner)]
        pairs = [quasi_index(draw, inner, sizes) for _ in range(draw(st.integers(1, 2)))]
        tensors.append(placeholder([extent for _, extent in pairs], name="A"))
        value = tensors[0][tuple(index for index, _ in pairs)] * 2.0
        return reducers.sum(value, axis=over) if len(inner) > len(axes) else value

    first = compute(extents, element, name="first")
    if draw(st.booleans()):
        return ComputeDAG([first])
    return ComputeDAG([compute(extents, lambda *axes: maximum(first[axes], 0.5), name="second")])


@COMMON
@given(quasi_affine().flatmap(renamed), *RUNS)
def test_quasi_affine_reads(dag: ComputeDAG, target: int, choice: int, seed: int) -> None:
    check(dag, target, choice, seed)


@st.composite
def guarded_quasi_affine(draw: Any) -> ComputeDAG:
    """Elements at quasi-affine indices that are inside of a tensor where a guard says so: some are
    axes in disguise.
    """
    extents = draw(st.lists(EXTENTS, min_size=1, max_size=2))
    size, shift = draw(EXTENTS), draw(st.integers(-4, 3))
    data = placeholder((size,), name="A")

    def element(*axes: Expr) -> Expr:
        axis, divisor = draw(st.sampled_from(axes)), draw(st.sampled_from([1, 3, 4, 11, 16, 60]))
        index = draw(st.sampled_from([axis % divisor, axis * 4 // 4, axis // divisor])) + shift
        return select(all_of(index >= 0, index < size), data[index], 0.5)

    return ComputeDAG([compute(extents, element, name="out")])


@COMMON
@given(guarded_quasi_affine().flatmap(renamed), *RUNS)
def test_guarded_quasi_affine_reads(dag: ComputeDAG, target: int, choice: int, seed: int) -> None:
    check(dag, target, choice, seed)


@st.composite
def guarded_producers(draw: Any) -> ComputeDAG:
    """A consumer that reads a producer at ``a*stride + b*step - shift``, guarded by its bounds."""
    rows, columns, depth = draw(EXTENTS), draw(EXTENTS), draw(SMALL)
    data = placeholder((rows, depth, columns), name="X")
    r = reduce_axis(depth, "r")
    reduced = draw(st.booleans())

    def produce(i: Expr, w: Expr) -> Expr:
        return reducers.sum(data[i, r, w], axis=r) if reduced else data[i, 0, w] * 2.0

    producer = compute((rows, columns), produce, name="P")
    a = reduce_axis(draw(st.integers(1, rows + 40)), "a")
    points, stride, step = draw(EXTENTS), draw(st.sampled_from([0, 0, 1, 2])), draw(SMALL)
    shift = draw(st.sampled_from([0, 0, 0, 1, 4]))
    reduce = draw(st.sampled_from([reducers.sum, reducers.max]))

    def consume(j: Expr, w: Expr) -> Expr:
        row = a * step + j * stride - shift
        inside = all_of(row >= 0, row < rows)
        return reduce(select(inside, producer[row, w], 0.0), axis=a)

    return ComputeDAG([compute((points, columns), consume, name="C")])


@COMMON
@given(guarded_producers().flatmap(renamed), *RUNS)
def test_guarded_reads_of_a_producer(dag: ComputeDAG, target: int, choice: int, seed: int) -> None:
    check(dag, target, choice, seed)


@st.composite
def halos(draw: Any) -> ComputeDAG:
    """A stencil, padded by guards, on a producer that is a stencil itself."""
    shape = (draw(EXTENTS), draw(EXTENTS))
    grid = placeholder(shape, name="X")
    reach = draw(st.tuples(*[st.integers(0, 2)] * 4))

    def tap(source: Tensor, y: Expr, x: Expr, dy: int, dx: int) -> Expr:
        tests = [y + dy >= 0, y + dy < shape[0], x + dx >= 0, x + dx < shape[1]]
        return select(all_of(*tests), source[y + dy, x + dx], 0.0)

    def blur(source: Tensor, name: str, before: int, after: int) -> Tensor:
        return compute(
            shape,
            lambda y, x: tap(source, y, x, -before, after) + tap(source, y, x, after, 0),
            name,
        )

    first = blur(grid, "first", *reach[:2])
    return ComputeDAG([blur(first, "second", *reach[2:])])


@COMMON
@given(halos().flatmap(renamed), *RUNS)
def test_halos(dag: ComputeDAG, target: int, choice: int, seed: int) -> None:
    check(dag, target, choice, seed)


@st.composite
def gathers(draw: Any) -> ComputeDAG:
    """Rows or elements of a table at indices that are data, clamped or wrapped."""
    rows, columns, points = draw(EXTENTS), draw(EXTENTS), draw(EXTENTS)
    table = placeholder((rows, columns), name="table")
    dtype = draw(st.sampled_from(["int32", "int64"]))
    wrapped, by_row = draw(st.booleans()), draw(st.booleans())
    index = placeholder((points,) if by_row else (points, columns), dtype, "index")

    def gather(i: Expr, j: Expr) -> Expr:
        at = index[i] if by_row else index[i, j]
        at = at % rows if wrapped else maximum(minimum(at, rows - 1), 0)
        return table[at, j] + 1.0

    return ComputeDAG([compute((points, columns), gather, name="out")])


@COMMON
@given(gathers().flatmap(renamed), *RUNS)
def test_gathers(dag: ComputeDAG, target: int, choice: int, seed: int) -> None:
    check(dag, target, choice, seed)


@COMMON
@given(
    st.sampled_from([97, 100, 127, 128, 129, 160, 251]),
    SMALL,
    st.booleans(),
    st.sampled_from(["float32", "int64"]),
    st.tuples(st.booleans(), st.booleans()),
    *RUNS,
)
def test_long_scans(length, others, last, dtype, ways, target, choice, seed):
    shape = (others, length) if last else (length, others)
    data = placeholder(shape, dtype, "data")
    check(ComputeDAG([cumulative(data, "sum", int(last), *ways)]), target, choice, seed)
