"""Transposed convolutions and values that several stages compute, against plain NumPy."""

import itertools

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.tensor import placeholder
from sketch.operators import broadcast, elementwise
from sketch.operators.conv import conv, depthwise_conv, grouped_conv
from sketch.operators.layout import transpose
from sketch.operators.phases import TransposedWindow
from sketch.operators.shared_buffer import apply_to_parts, merged_channels, place_of
from sketch.operators.transposed import conv_transpose
from sketch.oracle.interpret import interpret
from tests.support.workloads import random_inputs


def scattered(data, weight, stride, padding, dilation, extra):
    """What every input adds to every output; ``weight [*kernel, C, O]``."""
    rank = data.ndim - 2
    kernel = weight.shape[:rank]
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(data.shape[1:-1], stride, kernel, dilation, extra, strict=True)
    ]
    result = np.zeros((data.shape[0], *full, weight.shape[-1]))
    for point in itertools.product(*map(range, kernel)):
        places = tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, n, s in zip(point, dilation, data.shape[1:-1], stride, strict=True)
        )
        result[:, *places] += data.astype(np.float64) @ weight[point].astype(np.float64)
    low, high = padding[:rank], padding[rank:]
    kept = tuple(slice(a, n - b) for a, b, n in zip(low, high, full, strict=True))
    return result[:, *kept]


CASES = [
    # extents, kernel, stride, padding, dilation, output padding
    ((5,), (4,), (2,), (1, 1), (1,), (0,)),
    ((4,), (3,), (2,), (1, 0), (1,), (1,)),
    ((3, 4), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), (1, 1)),
    ((3, 4), (2, 5), (3, 1), (0, 2, 0, 1), (1, 1), (0, 0)),
    ((3, 3), (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), (1, 1)),
    ((3, 3), (3, 2), (2, 4), (0, 1, 1, 0), (2, 3), (0, 3)),
    ((2, 3, 2), (4, 2, 3), (2, 1, 2), (1, 0, 1, 1, 0, 1), (1, 1, 1), (0, 0, 1)),
    ((4,), (8,), (4,), (2, 2), (1,), (0,)),
    ((1,), (5,), (7,), (1, 1), (1,), (2,)),
]


@pytest.mark.parametrize("case", CASES)
def test_conv_transpose(case, rng):
    extents, kernel, stride, padding, dilation, extra = case
    data = placeholder((2, *extents, 3), name="data")
    weight = placeholder((*kernel, 3, 4), name="weight")
    parts = conv_transpose(data, weight, stride, padding, dilation, 1, extra, name="y")
    dag = ComputeDAG(parts)
    inputs = random_inputs(dag, rng)
    wanted = scattered(inputs["data"], inputs["weight"], stride, padding, dilation, extra)
    got = interpret(dag, inputs)["y"]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("groups", "multiplier"), [(2, 0), (4, 1), (4, 3)])
def test_groups_are_transposed_one_by_one(groups, multiplier, rng):
    data = placeholder((1, 3, 4, 4), name="data")
    shape = (2, 3, multiplier, 4) if multiplier else (groups, 2, 3, 2, 3)
    weight = placeholder(shape, name="weight")
    dag = ComputeDAG(conv_transpose(data, weight, 2, 1, 1, groups, 1, name="y"))
    inputs = random_inputs(dag, rng)
    x, w = inputs["data"], inputs["weight"]
    per_group = 4 // groups
    kernels = [w[..., [g]].swapaxes(2, 3) if multiplier else w[g] for g in range(groups)]
    pieces = [
        scattered(x[..., g * per_group : (g + 1) * per_group], kernels[g], (2, 2), (1,) * 4,
                  (1, 1), (1, 1))
        for g in range(groups)
    ]  # fmt: skip
    np.testing.assert_allclose(
        interpret(dag, inputs)["y"], np.concatenate(pieces, -1), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize(
    ("window", "ranges"),
    [
        ((8, 4, 2, 1, 1, 1, 0), 1),  # kernel a multiple of the stride: one form of phase
        ((8, 3, 2, 1, 1, 1, 1), 2),  # one phase has two taps, the other one
        ((8, 4, 4, 1, 0, 0, 0), 1),
        ((8, 8, 4, 1, 2, 2, 0), 2),  # padding wraps the phases around
        ((8, 3, 1, 2, 0, 0, 0), 1),
        ((8, 1, 2, 1, 0, 0, 1), 2),  # one phase without taps
    ],
)
def test_phases_of_one_form_are_one_range(window, ranges):
    assert len(TransposedWindow(*window).ranges()) == ranges


def test_no_inserted_zero_is_multiplied():
    """DCGAN's layers: 4 of 16 kernel positions reach an output."""
    data, weight = placeholder((1, 8, 8, 16), name="d"), placeholder((4, 4, 16, 8), name="w")
    (part,) = conv_transpose(data, weight, 2, 1)
    taps = np.prod([axis.extent for axis in part.op.reduce_axes])
    assert taps == 4 * 16
    assert np.prod(part.shape) == 16 * 16 * 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padding": 5}, "leave an output"),
        ({"output_padding": -1}, "output padding"),
        ({"stride": (2, 2, 2)}, "stride"),
        ({"groups": 2}, "do not fit a weight"),
    ],
)
def test_bad_transposed_convolutions_are_refused(options, message):
    data, weight = placeholder((1, 4, 4, 4), name="d"), placeholder((3, 3, 4, 4), name="w")
    with pytest.raises(ExpressionError, match=message):
        conv_transpose(data, weight, **options)


def test_convolutions_of_one_and_three_dimensions(rng):
    for extents, kernel in (((9,), (3,)), ((4, 5, 6), (2, 3, 1))):
        data = placeholder((2, *extents, 3), name="data")
        weight = placeholder((*kernel, 3, 5), name="weight")
        dag = ComputeDAG([conv(data, weight, name="y")])
        inputs = random_inputs(dag, rng)
        patches = np.lib.stride_tricks.sliding_window_view(
            inputs["data"].astype(np.float64), kernel, range(1, 1 + len(kernel))
        )
        letters = "xyz"[: len(kernel)]
        wanted = np.einsum(f"...c{letters},{letters}co->...o", patches, inputs["weight"])
        np.testing.assert_allclose(interpret(dag, inputs)["y"], wanted, rtol=1e-10, atol=1e-10)


def test_depthwise_with_a_multiplier_keeps_channels_innermost(rng):
    data = placeholder((1, 5, 5, 4), name="data")
    weight = placeholder((3, 3, 2, 4), name="weight")
    split = depthwise_conv(data, weight, name="split")
    assert split.shape == (1, 3, 3, 2, 4)
    dag = ComputeDAG([merged_channels(split, (1, 2), "y")])
    inputs = random_inputs(dag, rng)
    x, w = inputs["data"].astype(np.float64), inputs["weight"]
    patches = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    wanted = np.einsum("nhwcyx,yxmc->nhwcm", patches, w).reshape(1, 3, 3, 8)
    np.testing.assert_allclose(interpret(dag, inputs)["y"], wanted, rtol=1e-10, atol=1e-10)


def test_epilogues_go_to_every_part(rng):
    data = placeholder((1, 3, 3, 4), name="data")
    weight = placeholder((3, 3, 4, 8), name="weight")
    parts = conv_transpose(data, weight, 2, 1, output_padding=1)
    whole = placeholder(parts[0].op.store.buffer.shape, name="whole")
    bias, other = placeholder((8,), name="bias"), placeholder(whole.shape, name="other")
    total = broadcast.add(broadcast.add(whole, bias, "biased"), other)
    ends = apply_to_parts(parts, whole, elementwise.relu(total), "y")
    assert len(ends) == len(parts) == 4
    dag = ComputeDAG(ends)
    inputs = random_inputs(dag, rng)
    plain = interpret(ComputeDAG(parts), {k: inputs[k] for k in ("data", "weight")})
    wanted = np.maximum(plain["conv_transpose"] + inputs["bias"] + inputs["other"], 0)
    np.testing.assert_allclose(interpret(dag, inputs)["y"], wanted, rtol=1e-10, atol=1e-10)


def test_only_element_wise_epilogues_can_go_to_parts():
    data, weight = placeholder((1, 3, 3, 4), name="d"), placeholder((2, 3, 3, 2, 4), name="w")
    part = merged_channels(grouped_conv(data, weight, groups=2, name="g"), (4, 1), "y")
    whole = placeholder((1, 1, 1, 8), name="whole")
    with pytest.raises(ExpressionError, match="no element-wise function of whole"):
        apply_to_parts([part], whole, transpose(whole, (0, 1, 3, 2)), "z")


def test_places_are_read_back_from_store_maps():
    data, weight = placeholder((1, 3, 3, 4), name="d"), placeholder((4, 4, 4, 8), name="w")
    for order in (None, (0, 3, 1, 2)):
        (part,) = conv_transpose(data, weight, 2, 1, order=order)
        spatial = (1, 2) if order is None else (2, 3)
        places = place_of(part.op)
        assert [places[d] for d in spatial] == [(0, {1: 2, 2: 1}), (0, {3: 2, 4: 1})]
