"""Affine forms, index bounds, and the predicates that rules ask for."""

import operator

import numpy as np
import pytest

from autosched.tasks.spec import TaskSpec
from autosched.workloads import get
from sketch.analysis import access
from sketch.analysis.read_bounds import facts_of
from sketch.lang import reducers
from sketch.lang.expr import Axis, Binary, Cast, Const, as_expr, cast, select, unary
from sketch.lang.functions import all_of, maximum, minimum
from sketch.lang.rewrite import walk
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators import broadcast, elementwise, pooling
from sketch.operators.conv import conv2d
from sketch.operators.layout import reshape, transpose
from sketch.operators.matmul import matmul
from tests.support import workloads
from tests.support.targets import AVX512

I = Axis("i", 8, "spatial")  # noqa: E741 - the field's name
J = Axis("j", 4, "spatial")
K = Axis("k", 5, "reduce")
OPERATIONS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "mod": operator.mod, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize(
    ("build", "terms", "const"),
    [
        (lambda: 2 * I + J - 3, {I: 2, J: 1}, -3),
        (lambda: -(I - J) * 4, {I: -4, J: 4}, 0),
        (lambda: (I + 1) * 3 - I * 3, {}, 3),
        (lambda: as_expr(7), {}, 7),
        (lambda: cast(I, "int32") + 1, {I: 1}, 1),
        (lambda: (4 * I + J) // 4, {I: 1}, 0),
        (lambda: (4 * I + J) % 4, {J: 1}, 0),
        (lambda: (8 * I + 9) // 4, {I: 2}, 2),
        (lambda: (I + 8) // 8, {}, 1),
        (lambda: (I + 8) % 8, {I: 1}, 0),
    ],
)
def test_affine_index(build, terms, const):
    form = access.affine_index(build())
    assert form is not None and form == (terms, const)


@pytest.mark.parametrize(
    "build",
    [lambda: I * J, lambda: I // 3, lambda: (I + J) % 4, lambda: maximum(I, J), lambda: I // J],
)
def test_not_affine(build):
    assert access.affine_index(build()) is None


def test_affine_index_restricted_to_axes():
    assert access.affine_index(I + K, (I, J)) is None
    assert access.affine_index(I + J, (I, J)) == ({I: 1, J: 1}, 0)


@pytest.mark.parametrize(
    ("build", "bounds"),
    [
        (lambda: 2 * I - J, (-3, 14)),
        (lambda: I // 3, (0, 2)),
        (lambda: (I + J) % 4, (0, 3)),
        (lambda: I * J, (0, 21)),
        (lambda: maximum(I - 2, 0), (0, 5)),
        (lambda: minimum(I, J), (0, 3)),
        (lambda: -(I // 2), (-3, 0)),
        (lambda: select(I < 2, I, J + 10), (0, 13)),
        (lambda: (I // 3) - (J // 2), (-1, 2)),
    ],
)
def test_index_interval(build, bounds):
    assert access.index_interval(build()) == bounds


def value_at(expr, point):
    """An index of axes, constants and operators, at points."""
    match expr:
        case Axis():
            return point[expr]
        case Const(value):
            return value
        case Cast(operand, _):
            return value_at(operand, point)
        case Binary(op, lhs, rhs, _):
            return OPERATIONS[op](value_at(lhs, point), value_at(rhs, point))


@pytest.mark.parametrize(
    "dag",
    [workloads.conv2d_relu(56, 64, 64), get("T2D").dag(*get("T2D").shapes[0])],
    ids=["convolution", "transposed"],
)
def test_bounds_of_quotients_and_remainders_are_exact(dag):
    """Of those that variants have."""
    checked = 0
    for variant in TaskSpec(dag, AVX512).variants:
        for op in variant.dag.stages:
            for index in (i for load in access.stage_loads(op) for i in load.indices):
                if access.affine_index(index) is not None:
                    continue
                axes = [node for node in walk(index) if isinstance(node, Axis)]
                grid = np.meshgrid(*(np.arange(axis.extent) for axis in axes), indexing="ij")
                values = value_at(index, dict(zip(axes, grid, strict=True)))
                assert access.index_interval(index) == (values.min(), values.max()), index
                checked += 1
    assert checked


def test_index_interval_in_a_box_and_of_a_load():
    assert access.index_interval(2 * I + J, {I: (3, 4)}) == (6, 11)
    table = placeholder((8,), "int64", "table")
    assert access.index_interval(table[I]) == (-(2**63), 2**63 - 1)
    assert access.index_interval(maximum(minimum(table[I] + 3, 7), 0)) == (0, 7)
    assert access.index_interval(table[I] % 6) == (0, 5)


def test_reads_are_grouped_by_tensor():
    dag = workloads.stencil()
    ((tensor, accesses),) = access.reads(dag.stages[0]).items()
    assert tensor is dag.inputs[0] and len(accesses) == 5


def test_facts_of_a_conjunction():
    facts = facts_of(all_of(I >= 1, I < 5))
    assert facts == (({I: 1}, -1), ({I: -1}, 4))
    assert facts_of(unary("not", I < 1)) == (({I: 1}, -1),)
    assert facts_of(I * J > 2) is None


def test_ordered_access_and_elementary_calls():
    data = placeholder((8, 4), name="data")
    bias = placeholder((4,), name="bias")
    added, flipped = broadcast.add(data, bias).op, transpose(data, (1, 0)).op
    assert all(access.is_ordered_access(added, load.indices) for load in access.stage_loads(added))
    assert not access.is_ordered_access(flipped, access.stage_loads(flipped)[0].indices)
    assert access.has_elementary_call(elementwise.call(data, "exp").op)
    assert not access.has_elementary_call(added)


def test_elementwise_reads():
    conv, biased, added, result = workloads.conv2d_residual().stages
    assert access.reads_elementwise(biased, conv) and access.reads_elementwise(result, added)
    assert not access.reads_elementwise(conv, biased)
    top, powers, _, _ = workloads.softmax_dag().stages
    assert not access.reads_elementwise(powers, top)  # shapes differ
    first = elementwise.relu(placeholder((6, 6), name="data"))
    assert not access.reads_elementwise(transpose(first, (1, 0)).op, first.op)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda x: matmul(placeholder((8, 4), name="a"), placeholder((4, 8), name="b")), True),
        (lambda x: conv2d(x, placeholder((3, 3, 4, 8), name="w"), 1, 1), True),
        (lambda x: conv2d(x, placeholder((3, 3, 1, 4), name="w"), 1, 1, groups=4), True),
        (lambda x: pooling.pool2d(x, "max", 3, 2, 1), False),
        (lambda x: pooling.global_max_pool(x), False),
        (lambda x: elementwise.relu(x), False),
        (lambda x: broadcast.add(x, placeholder((4,), name="bias")), False),
        (lambda x: x, False),
    ],
)
def test_needs_tiling(build, expected):
    data = placeholder((1, 6, 6, 4), name="data")
    assert access.needs_tiling(build(data).op) is expected


def test_outer_product_needs_tiling_without_reduction():
    a, b = placeholder((8,), name="a"), placeholder((9,), name="b")
    assert access.needs_tiling(compute((8, 9), lambda i, j: a[i] * b[j], name="s").op)


def test_total_reduction_needs_no_tiling():
    a = placeholder((8,), name="a")
    k = reduce_axis(8)
    assert not access.needs_tiling(compute((), lambda: reducers.sum(a[k], k), name="s").op)


def test_reshape_is_affine_where_it_splits_and_merges_evenly():
    data = placeholder((2, 6, 4), name="data")
    split = reshape(data, (2, 3, 2, 4))
    (indices,) = access.reads(split.op)[data]
    assert all(access.affine_index(index) is not None for index in indices)
    merged = reshape(data, (12, 4))
    (indices,) = access.reads(merged.op)[data]
    assert [access.affine_index(index) is None for index in indices] == [True, True, False]
    assert [access.index_interval(index) for index in indices] == [(0, 1), (0, 5), (0, 3)]


def test_tiles_are_as_large_as_positive_numbers_only():
    data = placeholder((16,), name="x")

    def divided(index):
        return compute((16,), lambda i: data[index(i)], name="y").op

    for index in (lambda i: i // 0, lambda i: i % 0, lambda i: i // -4 + 4):
        assert not access.divisors(divided(index))
    for index in (lambda i: i % 5 // 0, lambda i: i % 5 % 0, lambda i: i % 8 // -4 + 4):
        assert not access.residues(divided(index))
    (size,) = access.residues(divided(lambda i: i % 8 // 4)).values()
    assert size == 4
