"""ONNX import: shapes that depend on data are never taken for static ones."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autosched as asd
from autosched.graph.errors import ModelImportError, UnsupportedModelError
from autosched.host.evaluator import HostError
from autosched.onnx.importer import from_onnx
from autosched.onnx.importer.open_shapes import open_shapes

Typed = tuple[str, int, Sequence[int | str] | None]
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.random.default_rng(3).standard_normal((8, 6), dtype=np.float32)
WINDOW: tuple[Typed, ...] = (("x", FLOAT, (8, 6)), ("s", INT, (1,)))


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Typed],
    output: Typed,
    constants: Mapping[str, object] | None = None,
    values: Sequence[Typed] = (),
) -> onnx.ModelProto:
    """A model.

    Args:
        nodes: in topological order.
        inputs: names and types.
        output: name and type.
        constants: arrays by name.
        values: names and types that it states for inner values.
    """
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*output)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
        value_info=[helper.make_tensor_value_info(*each) for each in values],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _run(model: onnx.ModelProto, **feeds: object) -> np.ndarray:
    module = asd.compile(from_onnx(model), threads=1, effort="none")
    (value,) = module.run({name: np.asarray(a) for name, a in feeds.items()}).values()
    return value


def _window() -> list[onnx.NodeProto]:
    return [
        helper.make_node("Add", ["s", "length"], ["e"]),
        helper.make_node("Slice", ["x", "s", "e"], ["w"]),
        helper.make_node("Relu", ["w"], ["y"]),
    ]


def test_the_shape_of_a_slice_at_positions_that_are_inputs() -> None:
    nodes = [
        helper.make_node("Slice", ["x", "s", "e"], ["w"]),
        helper.make_node("Shape", ["w"], ["y"]),
    ]
    model = _model(nodes, (*WINDOW, ("e", INT, (1,))), ("y", INT, (2,)))
    for start, end in ((2, 5), (0, 8), (4, 4)):
        found = _run(model, x=X, s=[start], e=[end])
        assert found.tolist() == [end - start, 6]


def test_the_number_of_selected_boxes() -> None:
    nodes = [
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["chosen"]),
        helper.make_node("Shape", ["chosen"], ["extents"]),
        helper.make_node("Gather", ["extents", "first"], ["y"]),
    ]
    constants = {"most": np.array([3]), "overlap": np.array([0.5], np.float32), "first": 0}
    inputs = (("boxes", FLOAT, (1, 4, 4)), ("scores", FLOAT, (1, 1, 4)))
    model = _model(nodes, inputs, ("y", INT, ()), constants)
    scores = np.array([[[0.9, 0.8, 0.7, 0.6]]], np.float32)
    for corners in ((0, 0, 0, 5), (0, 5, 9, 20), (0, 0, 0, 0)):
        boxes = np.array([[[c, c, c + 1, c + 1] for c in corners]], np.float32)
        count = _run(model, boxes=boxes, scores=scores)
        assert count == min(3, len(set(corners)))


def test_the_size_of_what_a_probe_knows_is_computed_when_the_network_runs() -> None:
    """No operator of these has a shape that depends on data, but onnx does not infer it."""
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["parts"]),
        helper.make_node("ConcatFromSequence", ["parts"], ["w"], axis=0),
        helper.make_node("Relu", ["w"], ["r"]),
        helper.make_node("Size", ["r"], ["y"]),
    ]
    network = from_onnx(_model(nodes, WINDOW[:1], ("y", INT, ())))
    assert not network.graph.constants
    module = asd.compile(network, threads=1, effort="none")
    assert module.run({"x": X})["y"] == 2 * X.size


def test_shapes_that_a_probe_got_wrong_are_told_as_such() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Less", ["i", "limit"], ["few"]),
            helper.make_node(
                "If",
                ["few"],
                ["grown"],
                then_branch=helper.make_graph(
                    [helper.make_node("Identity", ["state"], ["same"])],
                    "then",
                    [],
                    [helper.make_tensor_value_info("same", FLOAT, None)],
                ),
                else_branch=helper.make_graph(
                    [helper.make_node("Concat", ["state", "x"], ["longer"], axis=0)],
                    "else",
                    [],
                    [helper.make_tensor_value_info("longer", FLOAT, None)],
                ),
            ),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT, ()),
            helper.make_tensor_value_info("go", BOOL, ()),
            helper.make_tensor_value_info("state", FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go_on", BOOL, ()),
            helper.make_tensor_value_info("grown", FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("Loop", ["count", "", "x"], ["w"], body=body),
        helper.make_node("Relu", ["w"], ["y"]),
    ]
    inputs = (WINDOW[0], ("count", INT, ()))
    module = asd.compile(
        from_onnx(_model(nodes, inputs, ("y", FLOAT, None), {"limit": 50})),
        threads=1,
        effort="none",
    )
    np.testing.assert_array_equal(module.run({"x": X, "count": np.array(9)})["y"], X.clip(0))
    with pytest.raises(HostError, match=r"\(24, 6\) .* \(8, 6\) was assumed from a probe"):
        module.run({"x": X, "count": np.array(52)})


@pytest.mark.parametrize("values", [(), (("w", FLOAT, (3, 6)),)])
def test_a_window_of_stated_size_at_a_position_that_is_an_input(values: Sequence[Typed]) -> None:
    model = _model(_window(), WINDOW, ("y", FLOAT, (3, 6)), {"length": np.array([3])}, values)
    for start in (0, 2, 5):
        found = _run(model, x=X, s=[start])
        np.testing.assert_array_equal(found, X[start : start + 3].clip(0))
    with pytest.raises(HostError, match=r"\(1, 6\) on these inputs, \(3, 6\) is what the model"):
        _run(model, x=X, s=[7])


def test_what_a_model_states_for_inner_values_keeps_the_rest_in_kernels() -> None:
    stated = [("w", FLOAT, (3, 6))]
    model = _model(_window(), WINDOW, ("y", FLOAT, None), {"length": np.array([3])}, stated)
    module = asd.compile(from_onnx(model), threads=1, effort="none")
    assert [step.info.op for step in module.program.host_steps] == ["Slice"]


def test_a_window_of_unknown_size_is_refused() -> None:
    model = _model(_window(), WINDOW, ("y", FLOAT, ("n", 6)), {"length": np.array([3])})
    with pytest.raises(UnsupportedModelError, match="depends on data"):
        from_onnx(model)


def test_a_type_of_which_a_probe_is_all_that_is_known_must_not_contradict_the_model() -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["parts"]),
        helper.make_node("ConcatFromSequence", ["parts"], ["w"], axis=0),
        helper.make_node("Relu", ["w"], ["y"]),
    ]
    model = _model(nodes, WINDOW[:1], ("y", FLOAT, (15, 6)))
    with pytest.raises(ModelImportError, match=r"float32\[16, 6\], the model states float32\[15"):
        from_onnx(model)


@pytest.mark.parametrize("batch", [8, "n"])
def test_outputs_may_be_stated_for_another_batch(batch: int | str) -> None:
    """Who gives a model other inputs does not always change what it states of its outputs."""
    relu = helper.make_node("Relu", ["x"], ["y"])
    model = _model([relu], [("x", FLOAT, (batch, 6))], ("y", FLOAT, (1, 6)))
    network = from_onnx(model, {"x": (8, 6)})
    assert network.outputs[0].shape == (8, 6)
    np.testing.assert_array_equal(
        asd.compile(network, effort="none").run({"x": X})["y"], X * (X > 0)
    )


def _loop(count: str) -> list[onnx.NodeProto]:
    """Rows of ``x`` one after the other, as states and as they are collected."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["i", "one"], ["next"]),
            helper.make_node("Slice", ["x", "i", "next"], ["row"]),
        ],
        "body",
        [helper.make_empty_tensor_value_info(name) for name in ("i", "go", "state")],
        [helper.make_empty_tensor_value_info(name) for name in ("go_on", "row", "row")],
    )
    return [helper.make_node("Loop", [count, "", "x"], ["last", "rows"], body=body)]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([helper.make_node("NonZero", ["x"], ["y"])], {"y"}),
        ([helper.make_node("Slice", ["x", "k", "k"], ["y"])], set()),
        ([helper.make_node("Slice", ["x", "n", "k"], ["y"])], {"y"}),
        ([helper.make_node("Gather", ["x", "n"], ["y"])], set()),
        (
            [
                helper.make_node("Shape", ["x"], ["a"]),
                helper.make_node("Expand", ["k", "a"], ["y"]),
            ],
            set(),
        ),
        (
            [
                helper.make_node("Unique", ["x"], ["u"]),
                helper.make_node("Shape", ["u"], ["a"]),
                helper.make_node("Range", ["k", "a", "k"], ["y"]),
            ],
            {"u", "y"},
        ),
        (_loop("k"), set()),
        (_loop("n"), {"rows"}),
    ],
)
def test_which_shapes_are_open(nodes: Sequence[onnx.NodeProto], expected: set[str]) -> None:
    assert open_shapes(nodes, ("x", "n")) == expected
