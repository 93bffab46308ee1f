"""Element-wise, broadcast, reduction and layout operators against NumPy."""

import math

import numpy as np
import pytest

from sketch.analysis.access import affine_index, reads
from sketch.dag.dag import ComputeDAG
from sketch.dag.dag_json import dag_from_json, dag_to_json
from sketch.errors import ExpressionError
from sketch.lang.tensor import placeholder
from sketch.operators import broadcast, elementwise, layout, reduction
from sketch.oracle.interpret import interpret
from tests.support.workloads import random_inputs


def run(tensors, rng):
    parts = list(tensors) if isinstance(tensors, tuple) else [tensors]
    dag = ComputeDAG(parts)
    inputs = random_inputs(dag, rng)
    return list(interpret(dag, inputs).values()), inputs


ELEMENTWISE = [
    (elementwise.relu, lambda x: np.maximum(x, 0)),
    (lambda t: elementwise.leaky_relu(t, 0.25), lambda x: np.where(x > 0, x, x * 0.25)),
    (lambda t: elementwise.clip(t, -0.5, 0.75), lambda x: np.clip(x, -0.5, 0.75)),
    (elementwise.negative, np.negative),
    (elementwise.absolute, np.abs),
    (elementwise.exp, np.exp),
    (elementwise.tanh, np.tanh),
    (elementwise.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    (elementwise.hard_sigmoid, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    (elementwise.hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (elementwise.gelu, lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
]


@pytest.mark.parametrize(("build", "wanted"), ELEMENTWISE)
def test_elementwise(build, wanted, rng):
    data = placeholder((5, 7), name="data")
    (result,), inputs = run(build(data), rng)
    exact = wanted(inputs["data"].astype(np.float64))
    np.testing.assert_allclose(result, exact, rtol=1e-6, atol=1e-7)  # float32 literals


def test_clip_refuses_an_empty_range():
    with pytest.raises(ExpressionError, match="empty"):
        elementwise.clip(placeholder((2,)), 1, 0)


def test_cast(rng):
    (result,), inputs = run(elementwise.cast(placeholder((9,), name="data"), "int64"), rng)
    assert np.array_equal(result, np.trunc(inputs["data"]).astype(np.int64))


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (broadcast.add, np.add), (broadcast.subtract, np.subtract),
        (broadcast.multiply, np.multiply), (broadcast.divide, np.divide),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (3, 1)), ((), (3,))],
)
def test_broadcasting(op, wanted, lhs, rhs, rng):
    (result,), inputs = run(op(placeholder(lhs, name="a"), placeholder(rhs, name="b")), rng)
    exact = wanted(inputs["a"].astype("f8"), inputs["b"].astype("f8"))
    assert result.shape == exact.shape
    np.testing.assert_allclose(result, exact, rtol=1e-14)


def test_where_and_broadcast_to(rng):
    test = placeholder((4,), "bool", "test")
    a, b = placeholder((3, 4), name="a"), placeholder((3, 1), name="b")
    (result,), inputs = run(broadcast.where(test, a, b), rng)
    assert np.array_equal(result, np.where(inputs["test"], inputs["a"], inputs["b"]))
    (result,), inputs = run(broadcast.broadcast_to(placeholder((3, 1), name="c"), (2, 3, 4)), rng)
    assert np.array_equal(result, np.broadcast_to(inputs["c"], (2, 3, 4)))


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(ExpressionError, match="cannot broadcast"):
        broadcast.add(placeholder((3,)), placeholder((4,)))
    with pytest.raises(ExpressionError, match="does not broadcast"):
        broadcast.broadcast_to(placeholder((3, 4)), (4,))


@pytest.mark.parametrize("axis", [0, 2, -1, (0, 1), (0, 2), (0, 1, 2), None])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (reduction.sum, np.sum), (reduction.mean, np.mean), (reduction.max, np.max),
        (reduction.min, np.min), (reduction.prod, np.prod),
    ],
)  # fmt: skip
def test_reductions(op, wanted, axis, keepdims, rng):
    (result,), inputs = run(op(placeholder((3, 4, 5), name="data"), axis, keepdims), rng)
    exact = wanted(inputs["data"].astype("f8"), axis=axis, keepdims=keepdims)
    assert result.shape == exact.shape
    np.testing.assert_allclose(result, exact, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_argmax(axis, keepdims, rng):
    (index, value), inputs = run(
        reduction.argmax(placeholder((6, 5, 4), "int32", "data"), axis, keepdims), rng
    )
    exact = np.argmax(inputs["data"], axis, keepdims=keepdims)  # many ties: the first wins
    assert np.array_equal(index, exact)
    assert np.array_equal(value, inputs["data"].max(axis, keepdims=keepdims))


@pytest.mark.parametrize("axis", [(0, 0), 3, -4, ()])
def test_bad_reduction_axes_are_refused(axis):
    with pytest.raises(ExpressionError, match="cannot reduce"):
        reduction.sum(placeholder((3, 4, 5)), axis)


def test_transpose(rng):
    (result,), inputs = run(layout.transpose(placeholder((3, 4, 5), name="data"), (2, 0, 1)), rng)
    assert np.array_equal(result, inputs["data"].transpose(2, 0, 1))
    with pytest.raises(ExpressionError, match="no order"):
        layout.transpose(placeholder((3, 4)), (0, 0))


def test_pad(rng):
    data = placeholder((3, 4), name="data")
    (result,), inputs = run(layout.pad(data, (1, 0), (2, 3), 1.5), rng)
    assert np.array_equal(result, np.pad(inputs["data"], ((1, 2), (0, 3)), constant_values=1.5))
    with pytest.raises(ExpressionError, match="does not fit"):
        layout.pad(data, (1,), (2, 3))


@pytest.mark.parametrize(("dtype", "value"), [("uint8", 128.0), ("int8", 0.0), ("bool", 1)])
def test_what_is_padded_with_survives_a_file(dtype: str, value: float) -> None:
    """It is a number of the type, whatever type it was given in."""
    dag = ComputeDAG([layout.pad(placeholder((3,), dtype, name="data"), (1,), (2,), value)])
    again = dag_from_json(dag_to_json(dag))
    assert again.key == dag.key
    data = np.ones(3, dtype)
    (found,) = interpret(again, {"data": data}).values()
    np.testing.assert_array_equal(found, np.pad(data, (1, 2), constant_values=value))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((2, 3, 4), (6, 4)), ((6, 4), (2, 3, 4)), ((2, 3, 4), (24,)), ((24,), (4, 3, 2)),
        ((4, 6), (3, 8)), ((1, 6, 1), (6,)), ((6,), (1, 6, 1)), ((1, 1), (1,)), ((1,), ()),
        ((2, 1, 12), (2, 3, 4, 1)), ((1, 7, 7, 8), (1, 49, 8)), ((5, 4, 6), (5, 6, 4)),
    ],
)  # fmt: skip
def test_reshape(old, new, rng):
    (result,), inputs = run(layout.reshape(placeholder(old, name="data"), new), rng)
    assert np.array_equal(result, inputs["data"].reshape(new))


def test_reshape_keeps_untouched_dimensions_affine():
    data = placeholder((1, 7, 6, 8), name="data")
    (indices,) = reads(layout.reshape(data, (1, 42, 8)).op)[data]
    assert [affine_index(index) is not None for index in indices] == [True, False, False, True]
    with pytest.raises(ExpressionError, match="cannot reshape"):
        layout.reshape(data, (5,))


def test_strided_slice(rng):
    data = placeholder((7, 8), name="data")
    (result,), inputs = run(layout.strided_slice(data, (1, 0), (7, 8), (2, 3)), rng)
    assert np.array_equal(result, inputs["data"][1:7:2, 0:8:3])
    (result,), inputs = run(layout.strided_slice(data, (6, 5), (-1, 1), (-1, -3)), rng)
    assert np.array_equal(result, inputs["data"][::-1, 5:1:-3])
    for bad in [((0, 0), (8, 8), (1, 1)), ((0, 0), (7, 0), (1, 1)), ((0, 0), (7, 8), (1, -1))]:
        with pytest.raises(ExpressionError, match="does not fit"):
            layout.strided_slice(data, *bad)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_writes_one_buffer(axis, rng):
    shapes = [[2, 3, 4] for _ in range(3)]
    for number, shape in enumerate(shapes):
        shape[axis] = number + 2
    parts = [placeholder(shape, name=f"p{number}") for number, shape in enumerate(shapes)]
    (result,), inputs = run(layout.concat(parts, axis), rng)
    assert np.array_equal(result, np.concatenate([inputs[p.name] for p in parts], axis))


def test_concat_of_computed_elements(rng):
    a, b = placeholder((2, 3), name="a"), placeholder((2, 4), name="b")
    stages = layout.concat_elements(
        [((2, 3), lambda axes: a[axes] + 1.0), ((2, 4), lambda axes: b[axes] * 2.0)], 1
    )
    (result,), inputs = run(stages, rng)
    exact = np.concatenate([inputs["a"].astype("f8") + 1, inputs["b"].astype("f8") * 2], 1)
    assert np.array_equal(result, exact)


def test_bad_concats_are_refused():
    a, b = placeholder((2, 3), name="a"), placeholder((3, 3), name="b")
    with pytest.raises(ExpressionError, match="cannot concatenate"):
        layout.concat([a, b], 1)
    with pytest.raises(ExpressionError, match="is not one of"):
        layout.concat([a, a], 2)
