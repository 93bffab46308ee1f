"""Graph operators: shape inference, and lowering against onnxruntime."""

from collections.abc import Sequence

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.base import Op, Shape, TensorType
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.elementwise import BinaryOp, CastOp, Clip, Identity, LeakyRelu, UnaryOp
from autosched.graph.ops.lowering import LOWERINGS, lower
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.norm import BatchNorm
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.graph.ops.softmax import Softmax
from autosched.onnx.export import to_onnx
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.oracle.interpret import interpret
from tests.support.onnx_sessions import reference_session

MAP = (2, 6, 9, 7)

CASES: list[tuple[Op, list[Shape], Shape]] = [
    (Conv(), [MAP, (4, 6, 3, 3)], (2, 4, 7, 5)),
    (Conv(padding=(1, 2, 3, 0)), [MAP, (4, 6, 3, 3), (4,)], (2, 4, 11, 7)),
    (Conv(strides=(2, 3), padding=(1,) * 4), [MAP, (4, 6, 3, 3)], (2, 4, 5, 3)),
    (Conv(dilation=(2, 1)), [MAP, (4, 6, 3, 3)], (2, 4, 5, 5)),
    (Conv(groups=2, padding=(1,) * 4), [MAP, (4, 3, 3, 3), (4,)], (2, 4, 9, 7)),
    (Conv(groups=6), [MAP, (6, 1, 3, 3)], (2, 6, 7, 5)),
    (Conv(strides=(2, 2)), [MAP, (5, 6, 1, 1)], (2, 5, 5, 4)),
    (Pool("max", (3, 3), (2, 2), (1,) * 4), [MAP], (2, 6, 5, 4)),
    (Pool("max", (2, 3), (2, 2), ceil_mode=True), [MAP], (2, 6, 5, 3)),
    (Pool("avg", (3, 3), (2, 2), (1, 0, 1, 2)), [MAP], (2, 6, 5, 4)),
    (Pool("avg", (3, 3), (2, 2), (1,) * 4, count_include_pad=True), [MAP], (2, 6, 5, 4)),
    (GlobalPool("avg"), [MAP], (2, 6, 1, 1)),
    (GlobalPool("max"), [MAP], (2, 6, 1, 1)),
    (BatchNorm(1e-3), [MAP, (6,), (6,), (6,), (6,)], MAP),
    (BatchNorm(), [(3, 5), (5,), (5,), (5,), (5,)], (3, 5)),
    (Softmax(1), [(3, 5, 2)], (3, 5, 2)),
    (Dense(), [(3, 5), (5, 4), (4,)], (3, 4)),
    (Dense(), [(3, 5), (5, 4)], (3, 4)),
    (MatMul(), [(3, 5), (5, 4)], (3, 4)),
    (MatMul(), [(7, 3, 5), (7, 5, 4)], (7, 3, 4)),
    (MatMul(), [(2, 7, 3, 5), (7, 5, 4)], (2, 7, 3, 4)),
    (Clip(-0.5, 0.25), [(3, 5)], (3, 5)),
    (Clip(None, 0.25), [(3, 5)], (3, 5)),
    (LeakyRelu(0.1), [(3, 5)], (3, 5)),
    (Identity(), [(3, 5)], (3, 5)),
    (ReduceOp("mean", (2, 3), True), [MAP], (2, 6, 1, 1)),
    (ReduceOp("sum", (1,)), [MAP], (2, 9, 7)),
    (ReduceOp("max", (0, 2)), [MAP], (6, 7)),
    (ReduceOp("min", (3,)), [MAP], (2, 6, 9)),
    (Reshape((6, 5)), [(2, 3, 5)], (6, 5)),
    (Transpose((2, 0, 1)), [(2, 3, 5)], (5, 2, 3)),
    (Concat(1), [(2, 3, 5), (2, 1, 5), (2, 4, 5)], (2, 8, 5)),
    (Pad((0, 1, 2), (1, 0, 3), 1.5), [(2, 3, 5)], (3, 4, 10)),
    *((BinaryOp(f), [(2, 3, 5), (3, 1)], (2, 3, 5)) for f in ("add", "sub", "mul", "max", "min")),
    (BinaryOp("div"), [(3, 5), (5,)], (3, 5)),
    *(
        (UnaryOp(f), [(3, 5)], (3, 5))
        for f in ("relu", "sigmoid", "tanh", "exp", "erf", "abs", "neg", "floor", "ceil")
    ),
]


def _graph(op: Op, shapes: Sequence[Shape]) -> Graph:
    builder = GraphBuilder("case")
    inputs = [builder.input(Value(f"x{index}", shape)) for index, shape in enumerate(shapes)]
    builder.add(op, inputs, "y")
    return builder.finish({"y": "y"})


def _inputs(op: Op, graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    arrays = {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in graph.inputs}
    if isinstance(op, BatchNorm):
        arrays["x4"] = np.abs(arrays["x4"]) + np.float32(0.1)
    if isinstance(op, BinaryOp) and op.function == "div":
        arrays["x1"] = np.abs(arrays["x1"]) + np.float32(0.5)
    return arrays


@pytest.mark.parametrize(("op", "shapes", "expected"), CASES, ids=lambda v: str(v)[:60])
def test_shape_and_values_agree_with_onnxruntime(
    op: Op, shapes: list[Shape], expected: Shape
) -> None:
    graph = _graph(op, shapes)
    inputs = _inputs(op, graph)
    assert graph.outputs[0].shape == expected
    value = evaluate(graph, inputs)["y"]
    session = reference_session(to_onnx(graph).SerializeToString())
    reference = session.run(None, inputs)[0]
    assert value.shape == reference.shape == expected
    np.testing.assert_allclose(value, reference, rtol=1e-4, atol=1e-5)


def test_every_operator_has_a_lowering() -> None:
    # by name: a dataclass with slots replaces the class it decorates
    def below(kind: type[Op]) -> set[str]:
        # others of this process: what a page of the documentation defines
        subclasses = [op for op in kind.__subclasses__() if op.__module__.startswith("autosched.")]
        native = {op.__name__ for op in subclasses if not op.on_host}
        return native.union(*map(below, subclasses))

    assert {op.__name__ for op in LOWERINGS} == below(Op) - {"Elementwise", "Scan"}


@pytest.mark.parametrize("function", ["log", "sqrt", "rsqrt"])
def test_functions_of_positive_numbers(function: str) -> None:
    x = np.linspace(0.1, 3, 12, dtype=np.float32).reshape(3, 4)
    value = evaluate(_graph(UnaryOp(function), [(3, 4)]), {"x0": x})["y"]
    reference = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda v: 1 / np.sqrt(v)}[function]
    np.testing.assert_allclose(value, reference(x.astype(np.float64)), rtol=1e-12)


def test_cast_truncates_and_gives_the_dtype() -> None:
    graph = _graph(CastOp("int32"), [(4,)])
    assert graph.outputs[0].dtype == "int32"
    value = evaluate(graph, {"x0": np.array([-1.7, -0.2, 0.9, 2.5], np.float32)})["y"]
    np.testing.assert_array_equal(value, [-1, 0, 0, 2])


@pytest.mark.parametrize(
    ("op", "weight"),
    [(ConvTranspose((1, 1), (1,) * 4), (6, 4, 3, 3)), (Conv(groups=3), (6, 2, 3, 3))],
)
def test_stages_that_share_a_buffer_round_to_16_bits(op: Op, weight: Shape) -> None:
    rng = np.random.default_rng(0)
    shapes = {"x": MAP, "w": weight}
    arrays = {n: rng.standard_normal(s).astype(np.float16) for n, s in shapes.items()}
    program = ComputeDAG(lower(op, [placeholder(s, "float16", n) for n, s in shapes.items()], "y"))
    assert {array.dtype for array in program.output_arrays} == {"float16"}
    exact = ComputeDAG(lower(op, [placeholder(s, "float64", n) for n, s in shapes.items()], "y"))
    (value,) = interpret(program, arrays).values()
    (wanted,) = interpret(exact, {n: a.astype(np.float64) for n, a in arrays.items()}).values()
    np.testing.assert_allclose(value, wanted, rtol=2e-3, atol=2e-3)


def _types(*shapes: Shape) -> list[TensorType]:
    return [TensorType(shape, "float32") for shape in shapes]


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        (Conv(), [MAP, (4, 5, 3, 3)], "does not fit data"),
        (Conv(groups=4), [MAP, (4, 1, 3, 3)], "in 4 groups"),
        (Conv(), [MAP, (4, 6, 11, 3)], "no window of 11"),
        (Conv(), [MAP, (4, 6, 3, 3), (5,)], r"bias must have shape \(4,\)"),
        (Conv(), [(6, 9, 7), (4, 6, 3, 3)], "data must have 4 dimensions"),
        (Pool("max", (2, 2), (2, 2), (2, 0, 0, 0)), [MAP], "not smaller than the window"),
        (Dense(), [(3, 5), (4, 5)], "inner extents"),
        (MatMul(), [(3, 5), (5,)], "at least 2 dimensions"),
        (MatMul(), [(2, 3, 5), (3, 5, 4)], "do not broadcast"),
        (MatMul("int32"), [(3, 5), (5, 4)], "not multiplied in int32"),
        (BatchNorm(), [MAP, (6,), (6,), (6,), (5,)], "variance must have shape"),
        (Softmax(3), [(2, 3)], "axis 3 is out of range"),
        (ReduceOp("sum", ()), [(2, 3)], "not empty"),
        (ReduceOp("sum", (1, 0)), [(2, 3)], "ascending"),
        (Transpose((0, 0)), [(2, 3)], "does not permute"),
        (Concat(0), [(2, 3), (2, 4)], "cannot concatenate"),
        (Pad((1,), (0,)), [(2, 3)], "does not fit"),
        (BinaryOp("add"), [(2, 3), (2,)], "do not broadcast"),
    ],
)
def test_inputs_that_do_not_fit_are_rejected(op: Op, shapes: list[Shape], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        op.infer(_types(*shapes))


def test_dtypes_are_checked() -> None:
    integers, floats = TensorType((2,), "int32"), TensorType((2,), "float32")
    for op, inputs in [
        (BinaryOp("add"), [integers, floats]),
        (BinaryOp("and"), [integers, integers]),
        (UnaryOp("exp"), [integers]),
        (ReduceOp("mean", (0,)), [integers]),
    ]:
        with pytest.raises(GraphError):
            op.infer(inputs)


def test_wrong_inputs_to_evaluate_are_named() -> None:
    graph = _graph(UnaryOp("relu"), [(2, 3)])
    with pytest.raises(GraphError, match=r"give \['x0'\]"):
        evaluate(graph, {"z": np.zeros((2, 3))})
    with pytest.raises(GraphError, match=r"must be \(2, 3\)"):
        evaluate(graph, {"x0": np.zeros((3, 2))})
