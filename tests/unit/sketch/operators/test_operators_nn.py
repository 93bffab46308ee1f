"""Convolution, matrix products, pooling and softmax against plain NumPy loops."""

import itertools

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.tensor import placeholder
from sketch.operators import matmul, pooling, softmax
from sketch.operators.conv import conv2d, grouped_conv
from sketch.operators.window import Window, as_padding
from sketch.oracle.interpret import interpret
from tests.support.workloads import random_inputs


def run(tensor, rng):
    dag = ComputeDAG([tensor])
    inputs = random_inputs(dag, rng)
    return interpret(dag, inputs)[tensor.name], inputs


def windows(data, kernel, stride, padding, dilation, shape, fill):
    """Yield (oh, ow, patch [n, kh, kw, c]) of NHWC data."""
    top, left, bottom, right = padding
    extra = [max(k, 8) * 4 for k in kernel]  # room for windows that hang over in ceil mode
    pads = ((0, 0), (top, bottom + extra[0]), (left, right + extra[1]), (0, 0))
    framed = np.pad(data.astype(np.float64), pads, constant_values=fill)
    for oh, ow in itertools.product(range(shape[0]), range(shape[1])):
        rows = oh * stride[0] + np.arange(kernel[0]) * dilation[0]
        columns = ow * stride[1] + np.arange(kernel[1]) * dilation[1]
        yield oh, ow, framed[:, rows][:, :, columns]


def conv_by_loops(data, weight, stride, padding, dilation, groups):
    kh, kw, per_group, outputs = weight.shape
    top, left, bottom, right = padding
    height = (data.shape[1] + top + bottom - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    width = (data.shape[2] + left + right - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    result = np.zeros((data.shape[0], height, width, outputs))
    wide = outputs // groups
    taps = windows(data, (kh, kw), stride, padding, dilation, (height, width), 0)
    for oh, ow, patch in taps:
        for g in range(groups):
            part = patch[..., g * per_group : (g + 1) * per_group]
            kernel = weight[..., g * wide : (g + 1) * wide]
            result[:, oh, ow, g * wide : (g + 1) * wide] = np.einsum(
                "nhwc,hwco->no", part, kernel.astype(np.float64)
            )
    return result


CONVOLUTIONS = [
    # size, channels, kernel, outputs, stride, padding, dilation, groups
    ((6, 6), 3, (3, 3), 5, (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((7, 5), 4, (3, 2), 6, (2, 1), (0, 1, 2, 0), (1, 1), 1),
    ((9, 9), 2, (3, 3), 4, (1, 2), (2, 2, 2, 2), (2, 2), 1),
    ((5, 6), 4, (1, 1), 8, (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((5, 6), 4, (1, 1), 8, (2, 2), (0, 0, 0, 0), (1, 1), 1),
    ((6, 7), 6, (3, 3), 6, (1, 1), (1, 1, 1, 1), (1, 1), 6),
    ((6, 7), 6, (3, 3), 12, (2, 2), (1, 0, 1, 0), (1, 1), 6),
    ((6, 7), 6, (3, 3), 9, (1, 1), (1, 1, 1, 1), (1, 1), 3),
    ((4, 4), 1, (3, 3), 3, (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((4, 4), 1, (1, 1), 3, (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((2, 2), 3, (5, 5), 3, (1, 1), (2, 2, 2, 2), (1, 1), 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_conv2d(case, rng):
    size, channels, kernel, outputs, stride, padding, dilation, groups = case
    data = placeholder((2, *size, channels), name="data")
    weight = placeholder((*kernel, channels // groups, outputs), name="weight", constant=True)
    result, inputs = run(conv2d(data, weight, stride, padding, dilation, groups), rng)
    wanted = conv_by_loops(inputs["data"], inputs["weight"], stride, padding, dilation, groups)
    np.testing.assert_allclose(result, wanted, rtol=1e-10, atol=1e-10)


def test_grouped_conv_keeps_groups_as_an_axis(rng):
    data = placeholder((1, 5, 5, 6), name="data")
    weight = placeholder((3, 3, 2, 9), name="weight")
    result, inputs = run(grouped_conv(data, weight, 1, 1, 1, 3), rng)
    assert result.shape == (1, 5, 5, 3, 3)
    wanted = conv_by_loops(inputs["data"], inputs["weight"], (1, 1), (1, 1, 1, 1), (1, 1), 3)
    np.testing.assert_allclose(result.reshape(wanted.shape), wanted, rtol=1e-10, atol=1e-10)


def test_conv2d_tests_only_bounds_that_can_be_violated():
    data, weight = placeholder((1, 8, 8, 2), name="d"), placeholder((3, 3, 2, 2), name="w")
    assert "select" not in str(ComputeDAG([conv2d(data, weight)]))
    asymmetric = str(ComputeDAG([conv2d(data, weight, 2, (0, 0, 1, 1))]))
    assert ">= 0" not in asymmetric and "< 8" in asymmetric


@pytest.mark.parametrize(
    ("data", "weight", "options", "message"),
    [
        ((1, 8, 8, 3), (3, 3, 2, 4), {}, "do not fit a weight"),
        ((1, 8, 8, 4), (3, 3, 2, 5), {"groups": 2}, "do not fit a weight"),
        ((8, 8, 4), (3, 3, 4, 4), {}, "NHWC"),
        ((1, 2, 8, 4), (3, 3, 4, 4), {}, "does not fit into 2"),
        ((1, 8, 8, 4), (3, 3, 4, 4), {"stride": 0}, "stride"),
        ((1, 8, 8, 4), (3, 3, 4, 4), {"padding": (1, 2, 3)}, "padding"),
        ((1, 8, 8, 4), (3, 3, 4, 4), {"padding": -1}, "padding"),
    ],
)
def test_bad_convolutions_are_refused(data, weight, options, message):
    with pytest.raises(ExpressionError, match=message):
        conv2d(placeholder(data, name="d"), placeholder(weight, name="w"), **options)


def test_padding_forms():
    assert as_padding(1) == (1, 1, 1, 1)
    assert as_padding((1, 2)) == (1, 2, 1, 2)
    assert as_padding((1, 2, 3, 4)) == (1, 2, 3, 4)


def test_matrix_products(rng):
    a, b = placeholder((5, 7), name="a"), placeholder((7, 3), name="b")
    result, inputs = run(matmul.matmul(a, b), rng)
    np.testing.assert_allclose(result, inputs["a"].astype("f8") @ inputs["b"], rtol=1e-6)
    a, b = placeholder((2, 5, 7), name="a"), placeholder((2, 7, 3), name="b")
    result, inputs = run(matmul.batch_matmul(a, b), rng)
    np.testing.assert_allclose(result, inputs["a"].astype("f8") @ inputs["b"], rtol=1e-6)


def test_bad_products_are_refused():
    with pytest.raises(ExpressionError, match="do not match"):
        matmul.matmul(placeholder((5, 7)), placeholder((5, 7)))
    with pytest.raises(ExpressionError, match="3-D"):
        matmul.batch_matmul(placeholder((5, 7)), placeholder((7, 5)))


def pool_by_loops(data, kind, kernel, stride, padding, dilation, shape, with_pad):
    result = np.zeros((data.shape[0], *shape, data.shape[3]))
    top, left, bottom, right = padding
    inside = np.ones_like(data)
    if with_pad:
        inside = np.pad(inside, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=1)
        padding_of_inside = (0, 0, 0, 0)
    else:
        padding_of_inside = padding
    fill = -np.inf if kind == "max" else 0
    patches = windows(data, kernel, stride, padding, dilation, shape, fill)
    counts = windows(inside, kernel, stride, padding_of_inside, dilation, shape, 0)
    for (oh, ow, patch), (_, _, count) in zip(patches, counts, strict=True):
        if kind == "max":
            result[:, oh, ow] = patch.max((1, 2))
        else:
            result[:, oh, ow] = patch.sum((1, 2)) / count.sum((1, 2))
    return result


POOLS = [
    # size, kernel, stride, padding, dilation, ceil_mode, shape
    ((8, 8), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), False, (4, 4)),
    ((9, 7), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), False, (5, 4)),
    ((8, 8), (3, 3), (2, 2), (0, 0, 0, 0), (1, 1), True, (4, 4)),
    ((7, 7), (2, 3), (2, 3), (0, 1, 1, 0), (1, 1), True, (4, 3)),
    ((9, 9), (3, 3), (1, 1), (2, 1, 0, 1), (2, 1), False, (7, 9)),
    ((4, 4), (2, 2), (3, 3), (1, 1, 1, 1), (1, 1), True, (2, 2)),
]


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize(("kind", "with_pad"), [("max", False), ("avg", False), ("avg", True)])
def test_pool2d(case, kind, with_pad, rng):
    size, kernel, stride, padding, dilation, ceil_mode, shape = case
    data = placeholder((2, *size, 3), name="data")
    pool = pooling.pool2d(data, kind, kernel, stride, padding, dilation, ceil_mode, with_pad)
    assert pool.shape == (2, *shape, 3)
    result, inputs = run(pool, rng)
    wanted = pool_by_loops(inputs["data"], kind, kernel, stride, padding, dilation, shape, with_pad)
    np.testing.assert_allclose(result, wanted, rtol=1e-7)  # 1/taps is rounded


def test_window_positions_with_ceil_mode_start_inside():
    # 4 elements, one pad each side, window 2, stride 3: windows at 0 and 3; one at 6 would start
    # beyond the data and its leading pad.
    assert Window(4, 2, 3, 1, 1, 1).positions("", ceil_mode=True) == 2


def test_average_without_padding_is_a_plain_scaling():
    data = placeholder((1, 8, 8, 3), name="data")
    text = str(ComputeDAG([pooling.pool2d(data, "avg", 2)]))
    assert "pool2d.sum[i0, i1, i2, i3]*0.25" in text


def test_pooling_of_integers(rng):
    data = placeholder((1, 5, 5, 2), "int32", "data")
    result, inputs = run(pooling.pool2d(data, "max", 3, 1, 1), rng)
    wanted = pool_by_loops(
        inputs["data"], "max", (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (5, 5), False
    )
    assert result.dtype == np.int32 and np.array_equal(result, wanted)
    with pytest.raises(ExpressionError, match="average of int32"):
        pooling.pool2d(data, "avg", 2)


def test_global_pools(rng):
    data = placeholder((2, 5, 7, 3), name="data")
    result, inputs = run(pooling.global_avg_pool(data), rng)
    wanted = inputs["data"].astype("f8").mean((1, 2), keepdims=True)
    np.testing.assert_allclose(result, wanted, rtol=1e-7)  # 1/35 is rounded to float32
    result, inputs = run(pooling.global_max_pool(data), rng)
    assert np.array_equal(result, inputs["data"].max((1, 2), keepdims=True))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis, rng):
    data = placeholder((4, 5, 6), name="data")
    dag = ComputeDAG([softmax.softmax(data, axis)])
    values = rng.standard_normal((4, 5, 6)) * 500  # overflows without subtracting the maximum
    result = interpret(dag, {"data": values})["softmax"]
    powers = np.exp(values - values.max(axis, keepdims=True))
    np.testing.assert_allclose(result, powers / powers.sum(axis, keepdims=True))
    dag = ComputeDAG([softmax.log_softmax(data, axis)])
    result = interpret(dag, {"data": values})["log_softmax"]
    shifted = values - values.max(axis, keepdims=True)
    np.testing.assert_allclose(result, shifted - np.log(powers.sum(axis, keepdims=True)))
