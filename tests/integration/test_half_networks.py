"""Networks in 16-bit floats on CPUs: results of products of many rows against float64."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import autosched as asd
from autosched.compilation.network import extract_checked
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network, Value
from autosched.graph.ops.base import Op, Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.matmul import MatMul
from codegen.host import cpu_target, host_target
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.cpu_targets import label, runnable

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
HOST = host_target(2)
LARGEST = 65504.0


def without_conversions(target: Target) -> Target:
    """A machine without instructions between float16 and float32."""
    named = [f for f in target.features.split(",") if f not in ("+f16c", "+avx512bf16")]
    return replace(target, features=",".join((*named, "-f16c", "-avx512bf16")))


TARGETS = [*runnable(), without_conversions(cpu_target("cpu-avx2", 1))]


def network(
    op: Op, shapes: tuple[Shape, Shape], dtype: str, constant: bool, weight: NDArray[np.floating]
) -> Network:
    """A product and a ReLU."""
    builder = GraphBuilder("half")
    data = builder.input(Value("x", shapes[0], dtype))
    if constant:
        factor = builder.constant("w", weight.astype(NUMPY[dtype]))
    else:
        factor = builder.input(Value("w", shapes[1], dtype))
    value = builder.add(UnaryOp("relu"), [builder.add(op, [data, factor])])
    return Network("half", builder.finish({"y": value}))


def check(op: Op, data: Shape, weight: Shape, dtype: str, constant: bool, target: Target) -> None:
    """Sums are exact to their float32 roundings, and rounded once."""
    rng = np.random.default_rng(0)
    arrays = {"x": rng.standard_normal(data), "w": rng.standard_normal(weight)}
    net = network(op, (data, weight), dtype, constant, arrays["w"])
    inputs = {v.name: arrays[v.name].astype(NUMPY[dtype]) for v in net.inputs}
    exact = evaluate(net.graph, inputs)["y"]
    result = asd.compile(net, target=target).run(inputs)["y"]
    assert str(result.dtype) == dtype
    error = np.abs(result.astype(np.float64) - exact)
    limit = 1.01 * EPSILON[dtype] * np.abs(exact) + 1e-5 * np.abs(exact).max()
    assert (error <= limit).all()


PAD = (1, 1, 1, 1)
CASES: dict[str, tuple[Op, Shape, Shape, bool]] = {
    "convolution": (Conv((1, 1), PAD), (2, 16, 12, 12), (16, 16, 3, 3), True),
    "one filter": (Conv((1, 1), PAD), (1, 16, 12, 12), (1, 16, 3, 3), True),
    "strided": (Conv((2, 2), PAD), (1, 16, 13, 13), (24, 16, 3, 3), True),
    "dilated": (Conv((1, 1), dilation=(2, 2)), (1, 8, 13, 13), (16, 8, 3, 3), True),
    "grouped": (Conv((1, 1), PAD, groups=4), (1, 16, 12, 12), (16, 4, 3, 3), True),
    "single channels": (Conv((1, 1), PAD, groups=16), (1, 16, 12, 12), (16, 1, 3, 3), True),
    "large windows": (Conv(groups=16), (1, 16, 14, 14), (16, 1, 7, 7), True),
    "transposed": (ConvTranspose((2, 2)), (1, 16, 7, 7), (16, 8, 2, 2), True),
    "one dimension": (Conv((1,), (1, 1), (1,)), (1, 16, 40), (16, 16, 3), True),
    "volume": (Conv((1,) * 3, (0,) * 6, (1,) * 3), (1, 8, 6, 6, 6), (8, 8, 3, 3, 3), True),
    "weights of an input": (Conv((1, 1), PAD), (1, 16, 12, 12), (16, 16, 3, 3), False),
    "rows": (MatMul(), (16, 48), (48, 40), True),
    "one row": (MatMul(), (1, 48), (48, 40), True),
    "both vary": (MatMul(), (3, 20, 16), (3, 16, 24), False),
    "labels": (Einsum(("bihd", "bjhd"), "bhij"), (1, 20, 3, 16), (1, 24, 3, 16), False),
}


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("case", CASES)
def test_products_round_once(case: str, dtype: str) -> None:
    op, data, weight, constant = CASES[case]
    check(op, data, weight, dtype, constant, HOST)


@pytest.mark.parametrize("target", TARGETS, ids=label)
@pytest.mark.parametrize("dtype", NUMPY)
def test_products_round_once_on_every_machine(target: Target, dtype: str) -> None:
    check(*CASES["convolution"][:3], dtype, True, target)


@pytest.mark.parametrize("seed", range(4))
def test_random_windows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    groups, inputs, outputs = (int(n) for n in rng.integers(1, 6, 3))
    kernel = tuple(int(n) for n in rng.integers(1, 4, rank))
    sides = tuple(int(n) for n in rng.integers(0, 2, 2 * rank))
    steps = (int(n) for n in rng.integers(1, 3, 2 * rank))
    strides, dilation = (tuple(next(steps) for _ in range(rank)) for _ in range(2))
    extents = tuple(int(n) for n in rng.integers(6, 12, rank))
    op = Conv(strides, sides, dilation, groups)
    shapes = (2, groups * inputs, *extents), (groups * outputs, inputs, *kernel)
    check(op, *shapes, "float16", True, HOST)


def test_special_numbers() -> None:
    """Sums beyond the range are infinite, in it they may pass beyond; denormal numbers count."""
    tiny, rows = 2.0**-24, 16
    data = np.ones((rows, 4), np.float16)
    data[1] = np.inf
    data[2, 0] = np.nan
    data[3] = tiny
    data[4] = [LARGEST, LARGEST, -LARGEST, 1]
    data[5] = [LARGEST, LARGEST, 0, 0]
    weight = np.zeros((4, 8))
    weight[:, :4] = 1
    net = network(MatMul(), ((rows, 4), (4, 8)), "float16", True, weight)
    result = asd.compile(net, target=HOST).run({"x": data})["y"]
    assert (result[0, :4] == 4).all() and (result[0, 4:] == 0).all()
    assert np.isposinf(result[1, :4]).all() and np.isnan(result[1, 4:]).all()
    assert np.isnan(result[2]).all()
    assert (result[3, :4] == np.float16(4 * tiny)).all()
    assert (result[4, :4] == np.float16(LARGEST)).all() and np.isposinf(result[5, :4]).all()


def test_layers_round_between_each_other() -> None:
    """What the first leaves is beyond the range: infinite, though the second makes it small."""
    builder = GraphBuilder("two")
    value = builder.input(Value("x", (8, 4), "float16"))
    for n, size in enumerate((LARGEST, 2.0**-10)):
        weight = builder.constant(f"w{n}", np.full((4, 4), size, np.float16))
        value = builder.add(MatMul(), [value, weight])
    net = Network("two", builder.finish({"y": value}))
    result = asd.compile(net, target=HOST).run({"x": np.ones((8, 4), np.float16)})["y"]
    assert np.isposinf(result).all()


def test_exported_modules_have_the_same_results(tmp_path: object) -> None:
    op, data, weight, constant = CASES["convolution"]
    rng = np.random.default_rng(0)
    net = network(op, (data, weight), "float16", constant, rng.standard_normal(weight))
    module = asd.compile(net, target=HOST)
    path = f"{tmp_path}/half.asd"
    module.save(path)
    inputs = {"x": rng.standard_normal(data).astype(np.float16)}
    again = asd.load(path).run(inputs)["y"]
    np.testing.assert_array_equal(again, module.run(inputs)["y"])


def test_kernels_of_gpus_read_narrow_numbers() -> None:
    op, data, weight, constant = CASES["convolution"]
    net = network(op, (data, weight), "float16", constant, np.ones(weight))
    wide = extract_checked(net, HOST).constants.values()
    narrow = extract_checked(net, cuda_target("sm_90")).constants.values()
    assert {str(array.dtype) for array in wide} == {"float32"}
    assert {str(array.dtype) for array in narrow} == {"float16"}
