"""Every graph operator as ONNX computes what the graph does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.base import Op, TensorType
from autosched.graph.ops.columns import Fold
from autosched.graph.ops.elementwise import (
    BinaryOp,
    CastOp,
    UnaryOp,
)
from autosched.graph.ops.host import HostFunction, HostOp
from autosched.graph.ops.lowering import LOWERINGS
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.norm import Normalize
from autosched.graph.ops.reduce import Cumulative
from autosched.graph.ops.scan import Scan, ScanFunction
from tests.support import exported_elements, exported_layers
from tests.support.exported_operands import Fixed, floats

pytest.importorskip("onnx")

WITHOUT_FORM: Final[dict[str, str]] = {}
"""Operators without a form, and why."""
WHOLE_GRAPHS: Final = ("Scan", "HostOp")
"""Forms that are not in the table: loops, and pieces of other models."""

GROUPS: Final = {**exported_elements.CASES, **exported_layers.CASES}
_EXACT: Final = ("movement", "indexing")


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
        for op, operands in GROUPS["resampled"]()
    ]
    assert sum("Resize" in found for found in operators) == 6
