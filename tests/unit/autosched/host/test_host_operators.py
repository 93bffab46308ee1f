"""Operators on the host: in the graph, in its reference, in compiled modules and in files."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Network, Node, Result, Value
from autosched.graph.ops.base import TensorType
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.host import HostFunction, HostOp
from autosched.graph.ops.shape import Reshape
from autosched.graph.passes.constant_folding import fold_constants
from autosched.host.engines import ONNXRUNTIME, REFERENCE, OnnxruntimeEngine, fastest_engine
from autosched.host.evaluator import HostError, HostEvaluator
from autosched.runtime.errors import ModuleFileError

X = np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32)


def _payload(node: onnx.NodeProto, **constants: np.ndarray) -> bytes:
    inputs = [name for name in node.input if name not in constants]
    graph = helper.make_graph(
        [node],
        "host",
        [helper.make_empty_tensor_value_info(name) for name in inputs],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return bytes(model.SerializeToString())


SORT = HostFunction(
    "TopK",
    _payload(helper.make_node("TopK", ["x", "k"], ["values", "indices"]), k=np.array([2])),
    (TensorType((3, 4), "float32"),),
    (TensorType((3, 2), "float32"), TensorType((3, 2), "int64")),
)
WIDEN = HostFunction(
    "Cast",
    _payload(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.UINT16)),
    (TensorType((3, 2), "int64"),),
    (TensorType((3, 2), "uint16"),),
)
NARROW = HostFunction(
    "Cast",
    _payload(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)),
    (TensorType((3, 2), "uint16"),),
    (TensorType((3, 2), "float32"),),
)


def _graph() -> Graph:
    """relu -> TopK on the host -> kernels and values that no kernel knows between host calls."""
    builder = GraphBuilder("mixed")
    x = builder.input(Value("x", (3, 4)))
    positive = builder.add(UnaryOp("relu"), [x], name="positive")
    values = builder.add(HostOp(SORT, 0), [positive], name="top_values")
    indices = builder.add(HostOp(SORT, 1), [positive], name="top_indices")
    doubled = builder.add(UnaryOp("exp"), [values], name="exponential")
    wide = builder.add(HostOp(WIDEN, 0), [indices], name="wide")
    narrow = builder.add(HostOp(NARROW, 0), [wide], name="narrow")
    flat = builder.add(Reshape((6,)), [builder.add(UnaryOp("sqrt"), [narrow])])
    return builder.finish({"e": doubled, "i": indices, "w": wide, "root": flat})


def _expected() -> dict[str, np.ndarray]:
    order = np.argsort(-np.maximum(X, 0), axis=1, kind="stable")[:, :2]
    return {
        "e": np.exp(np.take_along_axis(np.maximum(X, 0), order, 1)),
        "i": order,
        "w": order.astype(np.uint16),
        "root": np.sqrt(order).reshape(-1),
    }


def test_reference_evaluates_host_operators() -> None:
    values = evaluate(_graph(), {"x": X})
    for name, expected in _expected().items():
        np.testing.assert_allclose(values[name], expected, rtol=1e-6, err_msg=name)


def test_nodes_of_one_call_are_one_call() -> None:
    calls = extract(_graph()).host_calls
    assert [call.function.operator for call in calls] == ["TopK", "Cast", "Cast"]
    assert calls[0].outputs == ((0, "top_values"), (1, "top_indices"))
    assert calls[0].layers == ("top_values", "top_indices")


def test_module_runs_saves_and_describes_them(tmp_path: Path) -> None:
    module = asd.compile(Network("mixed", _graph()), threads=1)
    module.save(tmp_path / "mixed.asd")
    for ready in (module, asd.load(tmp_path / "mixed.asd")):
        for _ in range(2):
            values = ready.run({"x": X})
            for name, expected in _expected().items():
                assert values[name].dtype == expected.astype(values[name].dtype).dtype
                np.testing.assert_allclose(values[name], expected, rtol=1e-5, err_msg=name)
    assert "TopK (top_values, top_indices) runs on the host" in module.summary()
    rows = {row.op: row for row in module.profile({"x": X}, repeats=3).rows}
    assert rows["TopK"].schedule == "host"
    assert rows["TopK"].microseconds > 0
    assert len(module.benchmark({"x": X}, repeats=2).seconds) == 2
    assert "3 on the host" in repr(module)


def test_files_without_a_payload_are_damaged(tmp_path: Path) -> None:
    from autosched.runtime.archive import write_archive

    module = asd.compile(Network("mixed", _graph()), threads=1)
    path = tmp_path / "broken.asd"
    write_archive(path, [(module.program, module.constants, module.objects, {})])
    with pytest.raises(ModuleFileError, match="damaged"):
        asd.load(path)


def test_tasks_leave_them_out() -> None:
    extraction = extract(_graph())
    assert len(extraction.subgraphs) == len(extraction.calls) - 3


def test_only_host_operators_take_values_that_kernels_do_not_know() -> None:
    node = Node("n", Reshape((6,)), ("x",), "y")
    with pytest.raises(GraphError, match=r"'x' has type uint16\[3, 2\]"):
        Graph("bad", (Value("x", (3, 2), "uint16"),), (Result("y", "y"),), (node,), {})
    builder = GraphBuilder("bad")
    with pytest.raises(GraphError, match="Cast on the host takes"):
        builder.add(HostOp(NARROW, 0), [builder.input(Value("x", (3, 2)))])


def test_values_too_large_for_any_memory() -> None:
    with pytest.raises(GraphError, match="needs 4,000,000,000,000,000,000 bytes"):
        GraphBuilder("huge").input(Value("x", (10**9, 10**9)))


def test_constants_are_folded_through_host_operators() -> None:
    builder = GraphBuilder("constant")
    builder.input(Value("x", (1,)))
    values = builder.add(HostOp(SORT, 0), [builder.constant("c", X)])
    indices = builder.add(HostOp(SORT, 1), ["c"])
    wide = builder.add(HostOp(WIDEN, 0), [indices])
    folded = fold_constants(builder.finish({"v": values, "w": wide}))
    assert [node.output for node in folded.nodes] == [wide]  # uint16: no constant of a graph
    np.testing.assert_allclose(folded.constants[values], np.sort(X)[:, :1:-1])


def test_failures_are_errors_of_ours() -> None:
    with pytest.raises(HostError, match="onnx cannot evaluate it"):
        HostEvaluator("Magic", _payload(helper.make_node("Magic", ["x"], ["y"])))
    gather = _payload(helper.make_node("Gather", ["x", "i"], ["y"]))
    evaluator = HostEvaluator("Gather", gather)
    with pytest.raises(HostError, match=r"failed: IndexError.* host operator Gather"):
        evaluator.run([X, np.array([7])])
    results = evaluator.run([X, np.array([1])])
    with pytest.raises(HostError, match=r"\(1, 4\) on these inputs, \(2, 4\) is what the model"):
        evaluator.result(results, 0, (2, 4), "float32")


def _typed_payload(node: onnx.NodeProto, kinds: dict[str, tuple[int, list[int]]]) -> bytes:
    model = onnx.load_from_string(_payload(node))
    for info in model.graph.input:
        kind, shape = kinds[info.name]
        info.CopyFrom(helper.make_tensor_value_info(info.name, kind, shape))
    return bytes(model.SerializeToString())


SCATTER = _typed_payload(
    helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=1, reduction="add"),
    {
        "x": (TensorProto.FLOAT, [3, 4]),
        "i": (TensorProto.INT64, [3, 2]),
        "u": (TensorProto.FLOAT, [3, 2]),
    },
)


@pytest.mark.parametrize(
    ("operator", "outputs", "attributes"),
    [
        ("TopK", 2, {}),
        ("TopK", 2, {"largest": 0}),
        ("ArgMax", 1, {"axis": 1}),
        ("ArgMin", 1, {"axis": 1}),
        ("Unique", 2, {}),
    ],
)
def test_engines_order_nan_in_the_same_way(
    operator: str, outputs: int, attributes: dict[str, int]
) -> None:
    """NaN is the largest number, as where NumPy sorts; onnxruntime leaves it anywhere, or out."""
    pytest.importorskip("onnxruntime")
    names = [f"y{index}" for index in range(outputs)]
    inputs = {"x": (TensorProto.FLOAT, [3, 4])}
    k = [np.array([3])] if operator == "TopK" else []
    inputs |= {"k": (TensorProto.INT64, [1])} if k else {}
    payload = _typed_payload(helper.make_node(operator, list(inputs), names, **attributes), inputs)
    fast, slow = HostEvaluator(operator, payload, fastest_engine), HostEvaluator(operator, payload)
    for numbers in (X, np.where(X > 0.5, np.nan, X)):
        for ours, right in zip(fast.run([numbers, *k]), slow.run([numbers, *k]), strict=True):
            np.testing.assert_array_equal(ours, right)
    assert fast.engine == ONNXRUNTIME


def test_engines_agree() -> None:
    pytest.importorskip("onnxruntime")
    feeds = [X, np.array([[0, 3], [1, 1], [2, -1]]), np.ones((3, 2), np.float32)]
    fast = HostEvaluator("ScatterElements", SCATTER, fastest_engine)
    slow = HostEvaluator("ScatterElements", SCATTER)
    assert (fast.engine, slow.engine) == (ONNXRUNTIME, REFERENCE)
    np.testing.assert_allclose(fast.run(feeds)[0], slow.run(feeds)[0], rtol=1e-6)
    for evaluator in (fast, slow):
        with pytest.raises(HostError, match=r"the evaluation failed.* ScatterElements"):
            evaluator.run([feeds[0], feeds[1] + 7, feeds[2]])


@pytest.mark.parametrize(
    "payload",
    [
        _payload(helper.make_node("Relu", ["x"], ["y"])),  # inputs without types
        _typed_payload(
            helper.make_node("Relu", ["x"], ["y"]), {"x": (TensorProto.BFLOAT16, [3, 4])}
        ),
    ],
)
def test_what_onnxruntime_does_not_take_goes_to_the_reference(payload: bytes) -> None:
    assert fastest_engine(payload).name == REFERENCE


@pytest.mark.parametrize("reduction", ["add", "mul", "max"])
def test_types_that_onnxruntime_refuses_in_a_run_go_to_the_reference(reduction: str) -> None:
    pytest.importorskip("onnxruntime")
    node = helper.make_node("ScatterND", ["x", "at", "updates"], ["y"], reduction=reduction)
    types = (TensorProto.FLOAT16, TensorProto.INT64, TensorProto.FLOAT16)
    shapes = ([3, 4], [2, 1], [2, 4])
    inputs = dict(zip(node.input, zip(types, shapes, strict=True), strict=True))
    payload = _typed_payload(node, inputs)
    feeds = [X.astype(np.float16), np.array([[2], [2]]), np.full((2, 4), 3, np.float16)]
    (expected,) = HostEvaluator("ScatterND", payload).run(feeds)
    evaluator = HostEvaluator("ScatterND", payload, fastest_engine)
    for _ in range(2):
        (found,) = evaluator.run(feeds)
        np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float16


def test_modules_run_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ImportError("no module named onnxruntime")

    monkeypatch.setattr(OnnxruntimeEngine, "__init__", missing)
    values = asd.compile(Network("mixed", _graph()), threads=1).run({"x": X})
    for name, expected in _expected().items():
        np.testing.assert_allclose(values[name], expected, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("error", [NotImplementedError, TypeError])
def test_what_the_reference_lacks_is_left_to_onnxruntime(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")

    def lacking(*_: object) -> None:
        raise error("no such type")

    monkeypatch.setattr("onnx.reference.ReferenceEvaluator.run", lacking)
    feeds = [X, np.array([[0, 3], [1, 1], [2, -1]]), np.ones((3, 2), np.float32)]
    evaluator = HostEvaluator("ScatterElements", SCATTER)
    (expected,) = HostEvaluator("ScatterElements", SCATTER, OnnxruntimeEngine).run(feeds)
    np.testing.assert_array_equal(evaluator.run(feeds)[0], expected)
    with monkeypatch.context() as patch:
        patch.setattr(OnnxruntimeEngine, "__init__", None)  # a session is made once
        np.testing.assert_array_equal(evaluator.run(feeds)[0], expected)
    untyped = _payload(helper.make_node("Relu", ["x"], ["y"]))  # onnxruntime does not take it
    with pytest.raises(HostError, match=f"{error.__name__}: no such type"):
        HostEvaluator("Relu", untyped).run([X])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "int64"])
def test_numbers_as_texts_are_those_of_the_standard(dtype: str) -> None:
    """onnxruntime writes eight digits, and "1" for true."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)],
        "texts",
        [helper.make_tensor_value_info("x", kind, [4])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = np.array([1.0, 1 / 3, 0.0, 123456792.0]).astype(dtype)
    network = asd.from_onnx(model)
    found = asd.compile(network, effort="none").run({"x": x})["y"]
    (expected,) = evaluate(network.graph, {"x": x}).values()
    assert found.tolist() == expected.tolist() == x.astype(str).tolist()


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_nan_that_is_made_inside_a_branch_is_the_extreme(operator: str) -> None:
    def branch(name: str, nodes: list[onnx.NodeProto], result: str) -> onnx.GraphProto:
        info = helper.make_tensor_value_info(result, TensorProto.INT64, [1])
        return helper.make_graph(nodes, name, [], [info])

    divided = [
        helper.make_node("Div", ["x", "z"], ["q"]),
        helper.make_node(operator, ["q"], ["a"], axis=0, keepdims=1),
    ]
    plain = [helper.make_node(operator, ["x"], ["b"], axis=0, keepdims=1)]
    node = helper.make_node(
        "If", ["c"], ["y"],
        then_branch=branch("then", divided, "a"), else_branch=branch("else", plain, "b"),
    )  # fmt: skip
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xz"),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, [1])]
    graph = helper.make_graph([node], "extremes", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feeds = {
        "c": np.array(True),
        "x": np.array([1, 0, 3, 2], np.float32),
        "z": np.array([1, 0, 1, 1], np.float32),
    }
    module = asd.compile(asd.from_onnx(model), effort="none")
    assert module.run(feeds)["y"].tolist() == [1]
