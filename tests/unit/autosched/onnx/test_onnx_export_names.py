"""Names of exported values, and what else a model of ONNX is strict about."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.ir import Graph, Result, Value
from autosched.graph.ops.activation import Activation
from autosched.graph.ops.base import Op
from autosched.graph.ops.elementwise import BinaryOp, LeakyRelu, UnaryOp
from autosched.graph.ops.shape import Transpose

pytest.importorskip("onnx")

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def _called_like_an_inner_value(builder: GraphBuilder) -> list[Result]:
    inner = builder.add(UnaryOp("exp"), ["x"])
    return [Result(inner, builder.add(UnaryOp("neg"), [inner]))]


def _exchanged(builder: GraphBuilder) -> list[Result]:
    one, other = (builder.add(UnaryOp(name), ["x"]) for name in ("exp", "abs"))
    return [Result(one, other), Result(other, one)]


def _called_like_a_constant(builder: GraphBuilder) -> list[Result]:
    constant = builder.constant("c", X)
    return [
        Result("c", builder.add(BinaryOp("add"), ["x", constant])),
        Result("d", constant),
    ]


def _twice(builder: GraphBuilder) -> list[Result]:
    value = builder.add(UnaryOp("exp"), ["x"])
    return [Result(value, value), Result("y", value), Result("x", "x")]


@pytest.mark.parametrize(
    "outputs", [_called_like_an_inner_value, _exchanged, _called_like_a_constant, _twice]
)
def test_outputs_are_called_as_they_should(
    outputs: Callable[[GraphBuilder], list[Result]],
) -> None:
    from tests.support.exported_graphs import assert_exported

    builder = GraphBuilder("names")
    builder.input(Value("x", X.shape))
    assert_exported(builder.finish(outputs(builder)), {"x": X})


def test_an_output_is_not_called_like_another_input() -> None:
    from autosched.onnx.export import to_onnx

    builder = GraphBuilder("names")
    builder.input(Value("x", X.shape))
    graph = builder.finish([Result("x", builder.add(UnaryOp("exp"), ["x"]))])
    with pytest.raises(GraphError, match="are both called 'x'"):
        to_onnx(graph)


def _of_one_operator(op: Op, shape: tuple[int, ...]) -> Graph:
    builder = GraphBuilder("operator")
    builder.input(Value("x", shape))
    return builder.finish({"y": builder.add(op, ["x"])})


@pytest.mark.parametrize(
    "op", [LeakyRelu(0), Activation("elu", (2,)), Activation("shrink", (1, 0))], ids=str
)
def test_whole_numbers_are_floats_where_onnx_wants_them(op: Op) -> None:
    from tests.support.exported_graphs import assert_exported

    assert_exported(_of_one_operator(op, X.shape), {"x": X})


def test_numbers_without_dimensions_are_transposed() -> None:
    from tests.support.exported_graphs import assert_exported

    assert_exported(_of_one_operator(Transpose(()), ()), {"x": np.array(1.5, np.float32)})


@pytest.mark.parametrize(("count", "most"), [(1, X.nbytes - 1), (2, X.nbytes * 2 - 1)])
def test_constants_beyond_the_size_of_a_model_are_told(
    count: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autosched.onnx.export import to_onnx, writer

    monkeypatch.setattr(writer, "_MOST_BYTES", most)
    builder = GraphBuilder("large")
    total = builder.input(Value("x", X.shape))
    for number in range(count):
        constant = builder.constant(f"c{number}", X)
        total = builder.add(BinaryOp("add"), [total, constant])
    with pytest.raises(GraphError, match="an ONNX model has at most"):
        to_onnx(builder.finish({"y": total}))
