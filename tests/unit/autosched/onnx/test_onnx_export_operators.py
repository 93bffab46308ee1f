"""Every graph operator as ONNX computes what the graph does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.activation import Activation
from autosched.graph.ops.base import Op, TensorType
from autosched.graph.ops.columns import Fold
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import (
    BinaryOp,
    CastOp,
    Clip,
    Identity,
    LeakyRelu,
    UnaryOp,
    Where,
)
from autosched.graph.ops.gather import (
    Gather,
    GatherElements,
    GatherPoints,
    OneHot,
    ReverseSequence,
)
from autosched.graph.ops.host import HostFunction, HostOp
from autosched.graph.ops.lowering import LOWERINGS
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.movement import Expand, Pick, Slice, Triangle
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.graph.ops.norm import BatchNorm, LocalResponseNorm, Normalize
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.reduce import ArgReduce, Cumulative, ReduceOp
from autosched.graph.ops.resample import Resample
from autosched.graph.ops.scan import Scan, ScanFunction
from autosched.graph.ops.scatter import SendAlong
from autosched.graph.ops.shape import Concat, Copy, Pad, Reshape, Transpose
from autosched.graph.ops.softmax import Hardmax, Softmax
from autosched.graph.resize_tables import Interpolation, Resizing, table
from sketch.operators.layout import Run
from sketch.operators.narrow import NarrowFormat, words_of

pytest.importorskip("onnx")

WITHOUT_FORM: Final[dict[str, str]] = {}
"""Operators without a form, and why."""
WHOLE_GRAPHS: Final = ("Scan", "HostOp")
"""Forms that are not in the table: loops, and pieces of other models."""

_RANDOM: Final = np.random.default_rng(3)
_INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8")
_BITS: Final = ("bit_and", "bit_or", "bit_xor")
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")


def floats(*shape: int, dtype: str = "float32") -> Any:
    return _RANDOM.standard_normal(shape).astype(dtype)


def numbers(low: int, high: int, shape: Sequence[int], dtype: str = "int64") -> Any:
    return _RANDOM.integers(low, high, shape).astype(dtype)


def truth(*shape: int) -> Any:
    return _RANDOM.random(shape) < 0.5


class Fixed:
    """An operand that is a constant."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)


MAP: Final = floats(2, 6, 9, 7)
FEW: Final = floats(3, 4, 5)
PLAIN: Final = (
    "relu", "sigmoid", "exp", "erf", "abs", "neg", "sign", "floor", "ceil", "round", "sin", "cos",
    "tan", "atan", "sinh", "cosh", "tanh", "asinh", "is_nan", "is_inf",
)  # fmt: skip
SPECIAL: Final = np.array([[np.nan, np.inf, -np.inf], [0, -0.0, 2.5]], np.float32)
Case = tuple[Op, tuple[Any, ...]]


def _unary() -> Iterator[Case]:
    for name in PLAIN:
        yield UnaryOp(name), (FEW,)  # type: ignore[arg-type]
    for name in ("log", "sqrt", "rsqrt", "reciprocal"):
        yield UnaryOp(name), (np.abs(FEW) + 0.1,)  # type: ignore[arg-type]
    for name in ("asin", "acos", "atanh"):
        yield UnaryOp(name), (np.tanh(FEW) * 0.9,)  # type: ignore[arg-type]
    yield UnaryOp("acosh"), (np.abs(FEW) + 1,)
    yield UnaryOp("not"), (truth(3, 4),)
    for test in ("is_nan", "is_inf"):
        yield UnaryOp(test), (SPECIAL,)  # type: ignore[arg-type]
    yield UnaryOp("is_inf"), (SPECIAL.astype(np.float16),)
    for dtype in _INTEGERS:
        for name in ("relu", "abs", "neg", "sign", "bit_not"):
            yield UnaryOp(name), (numbers(-9, 9, (3, 4), dtype),)  # type: ignore[arg-type]


def _elementwise() -> Iterator[Case]:
    yield from ((Clip(low, high), (FEW,)) for low, high in ((-0.5, 0.5), (None, 0.1), (0.0, None)))
    for dtype in _INTEGERS:
        yield Clip(2, 5), (numbers(0, 9, (3, 4), dtype),)
        yield Clip(0.5, None), (numbers(0, 9, (3, 4), dtype),)
        yield CastOp("float32"), (numbers(-99, 99, (3, 4), dtype),)
        yield CastOp("int8"), (numbers(-999, 999, (3, 4), dtype),)
        yield CastOp(dtype), (np.abs(FEW) * 9,)
        yield CastOp(dtype), (np.clip(FEW * 2000, -(2**30), 2**30),)
    yield CastOp("bool"), (SPECIAL,)
    yield CastOp("float64"), (FEW,)
    yield CastOp("float16"), (FEW,)
    yield LeakyRelu(0.1), (FEW,)
    yield Identity(), (FEW,)
    yield Copy(), (FEW,)
    for dtype in ("float32", "float64", "bool", *_INTEGERS):
        pair = numbers(0, 2, (2, 4, 5), dtype)
        yield Where(), (truth(3, 4, 1), pair[0], pair[1])


def _activation() -> Iterator[Case]:
    wide = FEW * 4
    for name in (
        "gelu",
        "gelu_tanh",
        "hard_swish",
        "mish",
        "softplus",
        "softsign",
        "swish",
        "selu",
    ):
        yield Activation(name), (wide,)  # type: ignore[arg-type]
        yield Activation(name), (wide.astype(np.float16),)  # type: ignore[arg-type]
    for name in ("elu", "celu", "thresholded_relu", "swish"):
        yield Activation(name, (0.7,)), (wide,)  # type: ignore[arg-type]
    yield Activation("selu", (1.5, 1.1)), (wide,)
    yield Activation("hard_sigmoid", (0.3, 0.4)), (wide,)
    yield Activation("shrink", (0.5, 0.2)), (wide,)
    yield Activation("shrink", (2.5, 1.0)), (numbers(-9, 9, (3, 4), "int32"),)


def _binary() -> Iterator[Case]:
    for name in ("add", "sub", "mul", "max", "min", "mod", "trunc_mod", *_COMPARISONS):
        yield BinaryOp(name), (FEW.round(1), floats(4, 1).round(1))  # type: ignore[arg-type]
    yield BinaryOp("div"), (FEW, np.abs(floats(5)) + 1)
    yield BinaryOp("pow"), (np.abs(FEW), floats(5))
    for slope in (floats(5), floats(4, 1), floats(2, 3, 4, 5)):
        yield BinaryOp("prelu"), (FEW, slope)
    for name in ("and", "or", *_COMPARISONS):
        yield BinaryOp(name), (truth(4, 5), truth(5))  # type: ignore[arg-type]
    for dtype in _INTEGERS:
        yield from _of_integers(dtype)


def _of_integers(dtype: str) -> Iterator[Case]:
    limits = np.iinfo(dtype)
    lowest = max(int(limits.min), -(2**40))
    edge = [lowest, lowest, lowest + 1, int(limits.max), 7, 0, 5, 100]
    lhs = np.array([edge], dtype).T
    rhs = np.array([0, 1, 3, 7, *((-1, -2, -7) if lowest else ())]).astype(dtype)
    for name in ("add", "sub", "mul", "max", "min", "prelu", *_COMPARISONS, *_BITS):
        yield BinaryOp(name), (lhs, rhs)  # type: ignore[arg-type]
    for name in ("div", "mod", "trunc_mod"):
        yield BinaryOp(name), (lhs, rhs)  # type: ignore[arg-type]
        yield BinaryOp(name), (lhs, Fixed(np.full(3, 7, dtype)))  # type: ignore[arg-type]
    bits = 8 * np.dtype(dtype).itemsize
    by = np.array([0, 1, bits - 2, bits - 1, bits, *((-1,) if lowest else ())]).astype(dtype)
    yield BinaryOp("shift_left"), (lhs, by)
    yield BinaryOp("shift_right"), (lhs, by)
    yield BinaryOp("pow"), (numbers(0, 3, (3, 4), dtype), numbers(0, 4, (4,), dtype))


def _movement() -> Iterator[Case]:
    for data in (FEW, truth(3, 4, 5), numbers(0, 9, (3, 4, 5), "int16")):
        yield Slice((0, 1, 4), (3, 4, -1), (1, 2, -1)), (data,)
        yield Slice((2, 0, 3), (-1, 4, 1), (-2, 1, -2)), (data,)
        yield Slice((0, 0, 0), (3, 4, 5), (1, 1, 1)), (data,)
        yield Expand((2, 3, 4, 5)), (data[:, :1],)
        yield Pick(1, (Run(4, 1, -1, 2), Run(8, 0, 1, 1))), (data,)
        yield Pad((0, 1, 2), (1, 0, 3), 1.0), (data,)
        yield Reshape((6, 10)), (data,)
        yield Transpose((2, 0, 1)), (data,)
        yield Concat(1), (data, data[:, :2])
    yield Pick(2, (Run(10, 0, 1, 2),)), (FEW,)
    for data in (FEW, numbers(1, 9, (4, 5), "int8"), numbers(1, 9, (4, 5), "int64"), truth(4, 5)):
        for upper, diagonal in ((True, 1), (False, -1), (False, 2)):
            yield Triangle(upper, diagonal), (data,)
    yield Triangle(False, 0, True), (FEW,)
    yield Triangle(True, 1, True), (FEW.astype(np.float64),)
    yield Fold((5, 6), (2, 3), (1, 1), (0, 1, 1, 0), (2, 1)), (floats(2, 3, 2, 3, 4, 5),)
    yield Fold((4, 6), (2, 3), (2, 3), (0, 0, 0, 0), (1, 1)), (floats(1, 2, 2, 3, 2, 2),)


def _indexing() -> Iterator[Case]:
    for dtype in ("int64", "int32", "int8"):
        yield Gather(1), (FEW, numbers(-4, 4, (2, 3), dtype))
        yield GatherElements(1), (FEW, numbers(-4, 4, (3, 6, 2), dtype))
        yield GatherPoints(), (FEW, numbers(-3, 3, (7, 2), dtype))
        yield GatherPoints(1), (FEW, numbers(-4, 4, (3, 2, 2), dtype))
        yield ReverseSequence(0, 1), (FEW, numbers(1, 5, (3,), dtype))
    yield Gather(0), (FEW, np.array(-1))
    for batch, time in ((1, 0), (2, 1), (0, 2), (2, 0), (1, 2)):
        yield ReverseSequence(batch, time), (FEW, numbers(1, 4, (FEW.shape[batch],)))
    for dtype in ("float32", "float64", "bool", *_INTEGERS):
        values = np.array([0, 1]).astype(dtype)
        yield OneHot(4, 1), (numbers(-6, 6, (2, 5), "int32"), values)
    for dtype in ("float32", "float64"):
        yield OneHot(3, 0), (np.array(1), np.array([2.0, 5.0], dtype))
    for function in ("last", "sum", "prod", "max", "min"):
        yield from _sent(function)


def _sent(function: Any) -> Iterator[Case]:
    own = np.array([1, -1, 0, 1, 2])
    for dtype in ("float32", "int64", "int32"):
        data, updates = (numbers(-5, 5, shape, dtype) for shape in ((2, 4, 3), (2, 5, 3)))
        for places in (own[:, None] + np.zeros((2, 5, 3), np.int64), own.reshape(1, 5, 1)):
            yield SendAlong(1, function), (data, places, updates)
            if function != "last":
                yield SendAlong(1, function, 6), (places.astype(np.int32), updates)


def _resampled() -> Iterator[Case]:
    for mode, coordinates, size in (
        ("linear", "half_pixel", 14), ("linear", "align_corners", 5), ("cubic", "half_pixel", 9),
        ("linear", "asymmetric", 14), ("nearest", "asymmetric", 14), ("nearest", "half_pixel", 3),
    ):  # fmt: skip
        known = table(Resizing(7, size, size / 7), Interpolation(mode, coordinates))
        positions, weights = known.used("float32")
        yield Resample(3), (MAP, Fixed(positions), Fixed(weights))
        yield Resample(1), (MAP[:, :, :, 0].transpose(0, 2, 1)[:, :7], positions, weights)
    known = table(Resizing(9, 4, 4 / 9), Interpolation("linear", "half_pixel", antialias=True))
    positions, weights = known.used("float32")
    yield Resample(2), (MAP, Fixed(positions), Fixed(weights))
    yield Resample(2), (MAP, Fixed(positions - 9), Fixed(weights))
    yield Resample(2), (MAP.astype(np.float64), Fixed(positions), Fixed(weights.astype(float)))


def _reductions() -> Iterator[Case]:
    for function in ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum_exp"):
        yield ReduceOp(function, (0, 2)), (FEW,)  # type: ignore[arg-type]
        yield ReduceOp(function, (1,), True), (FEW.astype(float),)  # type: ignore[arg-type]
    yield ReduceOp("log_sum", (1,)), (np.abs(FEW),)
    for dtype in _INTEGERS:
        data = numbers(-2, 3, (3, 4, 5), dtype)
        for function in ("sum", "max", "min", "prod", "l1", "sum_square"):
            yield ReduceOp(function, (1, 2)), (data,)  # type: ignore[arg-type]
        yield ArgReduce("max", 1), (data,)
        yield ArgReduce("min", 2, True, True), (data,)
        yield Cumulative("sum", 1), (data,)
        yield Cumulative("prod", 2, True), (data,)
    for function in ("max", "min"):
        yield ReduceOp(function, (1,)), (truth(3, 2, 4),)  # type: ignore[arg-type]
    ties = FEW.round()
    for last in (False, True):
        yield ArgReduce("max", 2, last=last), (ties,)
    for exclusive in (False, True):
        for reverse in (False, True):
            yield Cumulative("sum", -1, exclusive, reverse), (FEW,)
            yield Cumulative("prod", 1, exclusive, reverse), (FEW,)
    for axis in (-1, 0, 1):
        yield Softmax(axis), (FEW,)
        yield Softmax(axis, True), (FEW,)
        yield Hardmax(axis), (ties,)
        yield Hardmax(axis), (ties.astype(float),)


def _normalised() -> Iterator[Case]:
    positive = np.abs(floats(6)) + 0.1
    yield BatchNorm(1e-3), (MAP, floats(6), floats(6), floats(6), positive)
    for axes in ((3,), (2, 3), (1, 2, 3), (0,), (1,)):
        for centered in (False, True):
            yield Normalize(axes, 1e-3, centered), (MAP,)
            yield Normalize(axes, 1e-3, centered), (MAP.astype(np.float64),)
    for axis, size in ((1, 3), (-1, 5), (2, 4), (0, 1)):
        yield LocalResponseNorm(size, 0.3, 0.6, 1.5, axis), (MAP,)
    yield LocalResponseNorm(3, 0.3, 0.6, 1.5), (FEW,)


def _products() -> Iterator[Case]:
    yield MatMul(), (floats(2, 3, 4), floats(4, 5))
    yield Dense(), (floats(3, 4), floats(4, 5), floats(5))
    yield Dense(), (floats(3, 4, dtype="float64"), floats(4, 5, dtype="float64"))
    halves = floats(3, 4, dtype="float16"), floats(4, 5, dtype="float16")
    yield MatMul("float32"), halves
    yield Dense("float32"), halves
    yield Einsum(("ik", "kj"), "ij", "float32"), halves
    for dtype in _INTEGERS:
        pair = numbers(-99, 99, (3, 4), dtype), numbers(-99, 99, (4, 5), dtype)
        yield MatMul(), pair
        yield MatMul("int64"), pair
        yield Dense(), (*pair, numbers(0, 9, (5,), dtype))
        yield Einsum(("ik", "kj"), "ij"), pair
    for own in ("int8", "uint8"):
        pair = numbers(-99, 99, (3, 4), own), numbers(-99, 99, (4, 5), "int8")
        yield MatMul("int32"), pair
        yield Dense("int32"), (*pair, numbers(0, 9, (5,), "int32"))
        yield Einsum(("ik", "kj"), "ji", "int32"), pair
        kernel = numbers(-99, 99, (4, 6, 3, 3), "int8")
        data = numbers(-99, 99, (1, 6, 5, 5), own)
        yield Conv(padding=(1,) * 4, dtype="int32"), (data, Fixed(kernel))
        yield Conv(dtype="int32"), (data, Fixed(kernel), Fixed(numbers(0, 9, (4,), "int32")))
    yield Einsum(("bhqd", "bhkd"), "bhqk"), (floats(2, 3, 4, 5), floats(2, 3, 6, 5))
    yield Einsum(("bij", "bj", "i"), "bi"), (floats(2, 3, 4), floats(1, 4), floats(3))
    yield Einsum(("ii",), "i"), (floats(4, 4),)
    yield from _narrow()


def _narrow() -> Iterator[Case]:
    for bits, dtype in ((4, "float32"), (8, "uint8"), (2, "float32")):
        stored = NarrowFormat(bits, 16)
        half = 1 << (bits - 1)
        words = words_of(numbers(-half, half, (32, 3), "int8"), stored)
        scale, zero = floats(2, 3), numbers(0, 3, (2, 3), dtype)
        yield NarrowMatMul(stored), (floats(2, 32), Fixed(words), Fixed(scale))
        yield NarrowMatMul(stored), (floats(2, 32), Fixed(words), Fixed(scale), Fixed(zero))


def _windows() -> Iterator[Case]:
    yield Conv(padding=(1, 2, 3, 0)), (MAP, floats(4, 6, 3, 3), floats(4))
    yield Conv(groups=6, dilation=(2, 1)), (MAP, floats(6, 1, 3, 3))
    yield Conv((2,), (1, 1), (1,)), (FEW, floats(2, 4, 3))
    yield Conv((1,) * 3, (0,) * 6, (1,) * 3), (floats(1, 2, 4, 4, 4), floats(3, 2, 2, 2, 2))
    transposed = ConvTranspose((2, 2), (1, 0, 0, 1), output_padding=(1, 0))
    yield transposed, (MAP, floats(6, 4, 3, 3), floats(4))
    yield ConvTranspose((2, 1), groups=3), (MAP, floats(6, 2, 2, 2))
    yield ConvTranspose((2,), (0, 0), (1,), output_padding=(0,)), (FEW, floats(4, 3, 2))
    for mode in ("max", "avg", "sum"):
        yield from _pooled(mode)
    for dtype in ("int8", "uint8", "int16", "int32"):
        yield Pool("max", (2, 2), (2, 2)), (numbers(-99, 99, (1, 2, 4, 6), dtype),)
    yield GlobalPool("avg"), (MAP,)
    yield GlobalPool("max"), (MAP,)


def _pooled(mode: Any) -> Iterator[Case]:
    yield Pool(mode, (3, 3), (2, 2), (1, 0, 1, 2)), (MAP,)
    yield Pool(mode, (2,), (2,)), (FEW,)
    for counted in (False, True):
        further = {"count_include_pad": counted}
        yield Pool(mode, (2, 2), (2, 2), ceil_mode=True, **further), (MAP,)
        yield Pool(mode, (3, 3), (3, 2), (1,) * 4, ceil_mode=True, **further), (MAP,)
        yield Pool(mode, (3, 3), (1, 2), (1, 2, 0, 1), (2, 1), **further), (MAP,)


def _graph(op: Op, operands: Sequence[Any]) -> tuple[Graph, dict[str, Any]]:
    builder, feeds, names = GraphBuilder("case"), {}, []
    for index, operand in enumerate(operands):
        names.append(f"x{index}")
        if isinstance(operand, Fixed):
            builder.constant(names[-1], operand.array)
        else:
            feeds[names[-1]] = np.ascontiguousarray(operand).reshape(np.shape(operand))
            builder.input(Value(names[-1], np.shape(operand), str(operand.dtype)))
    return builder.finish({"y": builder.add(op, names)}), feeds


GROUPS: Final = {
    "unary": _unary,
    "elementwise": _elementwise,
    "activation": _activation,
    "binary": _binary,
    "movement": _movement,
    "indexing": _indexing,
    "resampled": _resampled,
    "reductions": _reductions,
    "normalised": _normalised,
    "products": _products,
    "windows": _windows,
}
_EXACT: Final = ("movement", "indexing")


@pytest.mark.parametrize("group", GROUPS)
def test_operators_are_the_same_in_onnx(group: str) -> None:
    from tests.support.exported_graphs import assert_exported

    failures = []
    for op, operands in GROUPS[group]():
        graph, feeds = _graph(op, operands)
        half = any(array.dtype == np.float16 for array in feeds.values())
        exact = group in _EXACT and not isinstance(op, Fold)
        try:
            assert_exported(graph, feeds, exact, 3e-3 if half else 1e-5)
        except Exception as error:  # of any of three: all that fail are listed
            types = ", ".join(str(graph.types[name]) for name in graph.nodes[0].inputs)
            failures.append(f"{op}({types}): {type(error).__name__} {error}"[:600])
    assert not failures, "\n".join(failures)


def _operators(kind: type[Op]) -> Iterator[str]:
    for op in kind.__subclasses__():
        if op.__module__.startswith("autosched.") and op.__name__ != "Elementwise":
            yield op.__name__
        yield from _operators(op)


def test_every_operator_has_a_form_or_a_reason() -> None:
    from autosched.onnx.export.table import FORMS

    assert LOWERINGS  # loads all operators
    forms = {op.__name__ for op in FORMS}
    assert set(_operators(Op)) == forms | set(WITHOUT_FORM) | set(WHOLE_GRAPHS)
    assert not forms & set(WITHOUT_FORM)
    used = {type(op).__name__ for cases in GROUPS.values() for op, _ in cases()}
    assert forms - used == set()


def _loop_body(states: bool, slices: bool) -> Graph:
    """state + slice * shared, and the new state; shared itself where there is neither."""
    builder = GraphBuilder("body")
    state = builder.input(Value("h", (3,))) if states else None
    row = builder.input(Value("row", (3,))) if slices else None
    shared = builder.input(Value("w", (3,)))
    scale = builder.constant("two", np.full(1, 2, np.float32))
    value = shared if row is None else builder.add(BinaryOp("mul"), (row, shared))
    value = builder.add(BinaryOp("mul"), (value, scale))
    value = value if state is None else builder.add(BinaryOp("add"), (state, value))
    running = builder.add(Cumulative("prod", 0), (value,))
    return builder.finish({"next": value, "row": running, "w": shared} if states else {"y": value})


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("states", "slices"), [(True, True), (True, False), (False, True)])
def test_loops(states: bool, slices: bool, backwards: bool) -> None:
    from tests.support.exported_graphs import assert_exported

    function = ScanFunction(_loop_body(states, slices), 4, int(states), int(slices), backwards)
    builder, feeds = GraphBuilder("loop"), {}
    shapes = {"first": (3,)} if states else {}
    shapes |= {"rows": (4, 3)} if slices else {}
    for name, shape in (shapes | {"w": (3,)}).items():
        builder.input(Value(name, shape))
        feeds[name] = floats(*shape)
    results = range(len(function.body.outputs))
    found = {f"y{index}": builder.add(Scan(function, index), list(feeds)) for index in results}
    assert_exported(builder.finish(found), feeds)


def test_a_loop_of_several_results_is_one_node() -> None:
    from autosched.onnx.export import to_onnx

    function = ScanFunction(_loop_body(True, True), 4, 1, 1)
    builder = GraphBuilder("loop")
    names = [
        builder.input(Value(name, shape))
        for name, shape in (("first", (3,)), ("rows", (4, 3)), ("w", (3,)))
    ]
    found = {f"y{index}": builder.add(Scan(function, index), names) for index in range(3)}
    operators = [node.op_type for node in to_onnx(builder.finish(found)).graph.node]
    assert operators.count("Scan") == 1


def test_bfloat16_is_computed_in_float32() -> None:
    """Between conversions: onnxruntime takes no such arrays."""
    from tests.support.exported_graphs import assert_exported

    builder = GraphBuilder("narrow")
    data = builder.add(CastOp("bfloat16"), (builder.input(Value("x", (2, 3, 4))),))
    other = builder.add(CastOp("bfloat16"), (builder.constant("w", floats(4)),))
    cut = builder.add(Slice((0, 1, 0), (2, 3, 4), (1, 1, 1)), (data,))
    normal = builder.add(Normalize((2,)), (cut,))
    total = builder.add(BinaryOp("add"), (builder.add(BinaryOp("mul"), (normal, other)), cut))
    wide = builder.add(CastOp("float32"), (total,))
    assert_exported(builder.finish({"y": wide}), {"x": floats(2, 3, 4)}, tolerance=2e-2)


def test_constants_that_nothing_reads_are_left_out() -> None:
    from autosched.onnx.export import to_onnx

    builder = GraphBuilder("constants")
    builder.constant("unread", floats(2))
    builder.constant("result", floats(2))
    data = builder.input(Value("x", (2,)))
    graph = builder.finish({"y": builder.add(UnaryOp("relu"), (data,)), "result": "result"})
    assert [constant.name for constant in to_onnx(graph).graph.initializer] == ["result"]


def _piece(version: int) -> HostFunction:
    """The sorted sums of rows, and how they were ordered."""
    from onnx import TensorProto, helper, numpy_helper

    axes = numpy_helper.from_array(np.array([1]), "axes")
    count = numpy_helper.from_array(np.array([3]), "count")
    body = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x", "axes"], ["sum"], keepdims=0),
            helper.make_node("TopK", ["sum", "count"], ["y", "order"], largest=0),
        ],
        "piece",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 4))],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, (3,)),
            helper.make_tensor_value_info("order", TensorProto.INT64, (3,)),
        ],
        [axes, count],
    )
    opsets = [helper.make_opsetid("", version)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=8)
    kinds = TensorType((3,), "float32"), TensorType((3,), "int64")
    return HostFunction(
        "ReduceSum+TopK", model.SerializeToString(), (TensorType((3, 4), "float32"),), kinds
    )


@pytest.mark.parametrize("version", [13, 18, 21])
def test_pieces_on_the_host(version: int) -> None:
    """Names in the piece are those of values around it."""
    from autosched.onnx.export import to_onnx
    from tests.support.exported_graphs import assert_exported

    function, builder = _piece(version), GraphBuilder("host")
    data = builder.input(Value("x", (3, 4)))
    first = builder.add(UnaryOp("neg"), (data,), "sum")
    found = {f"y{index}": builder.add(HostOp(function, index), (first,)) for index in (0, 1)}
    graph = builder.finish(found)
    assert_exported(graph, {"x": floats(3, 4)})
    model = to_onnx(graph)
    assert [node.op_type for node in model.graph.node].count("TopK") == 1
    assert [opset.version for opset in model.opset_import] == [18]


def test_a_resize_is_one() -> None:
    from autosched.onnx.export import to_onnx

    operators = [
        {node.op_type for node in to_onnx(_graph(op, operands)[0]).graph.node}
        for op, operands in _resampled()
    ]
    assert sum("Resize" in found for found in operators) == 6
