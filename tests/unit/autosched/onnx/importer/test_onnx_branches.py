"""ONNX import: both branches of an ``If`` whose condition is data are parts of the graph."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network
from autosched.graph.ops.host import HostOp
from autosched.onnx.importer import from_onnx
from autosched.system.user_warnings import AutoschedWarning
from tests.support.onnx_sessions import reference_session

X = np.random.default_rng(1).standard_normal((2, 8), dtype=np.float32)
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
make, info = helper.make_node, helper.make_tensor_value_info


def _constant(name: str, value: Any) -> onnx.NodeProto:
    return make("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))


def _graph(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    kind: int = FLOAT,
) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    return helper.make_graph(nodes, "branch", [], [info(n, kind, None) for n in outputs], tensors)


def _if(
    then: onnx.GraphProto, otherwise: onnx.GraphProto, outputs: Sequence[str], condition: str = "c"
) -> onnx.NodeProto:
    return make("If", [condition], outputs, then_branch=then, else_branch=otherwise)


def _model(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Any] | None = None,
    kinds: Sequence[int] = (FLOAT,),
    x: np.ndarray = X,
    condition: Sequence[int] = (),
) -> onnx.ModelProto:
    """From ``x`` and a condition ``c`` to ``y``, ``y1`` ..."""
    names = ["y", *(f"y{n}" for n in range(1, len(kinds)))]
    graph = helper.make_graph(
        nodes,
        "case",
        [info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape), info("c", BOOL, condition)],
        [info(name, kind, None) for name, kind in zip(names, kinds, strict=True)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _on_host(network: Network) -> list[str]:
    return [n.op.function.operator for n in network.graph.nodes if isinstance(n.op, HostOp)]


def _check(model: onnx.ModelProto, x: np.ndarray = X, host: Sequence[str] = ()) -> Network:
    """Import, evaluate for both conditions, compare with onnxruntime."""
    network = from_onnx(model)
    assert _on_host(network) == [*host]
    session = reference_session(model.SerializeToString())
    shape = network.inputs[1].shape
    for condition in (True, False):
        feed = {"x": x, "c": np.full(shape, condition)}
        found = evaluate(network.graph, feed)
        expected = session.run(None, feed)
        assert [value.dtype for value in network.outputs] == [str(e.dtype) for e in expected]
        for value, wanted in zip(found.values(), expected, strict=True):
            assert value.shape == wanted.shape
            np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)
    return network


@pytest.mark.parametrize("condition", [(), (1,)])
def test_results_are_chosen(condition: Sequence[int]) -> None:
    then = _graph([make("Relu", ["x"], ["a"]), make("Neg", ["x"], ["b"])], ["a", "b"])
    otherwise = _graph([make("Abs", ["x"], ["a"]), make("Exp", ["x"], ["d"])], ["d", "a"])
    model = _model([_if(then, otherwise, ["y", "y1"])], kinds=(FLOAT, FLOAT), condition=condition)
    module = asd.compile(_check(model), threads=1)
    for chosen, wanted in ((True, np.maximum(X, 0)), (False, np.exp(X))):
        found = module.run({"x": X, "c": np.full(condition, chosen)})["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_single_number_is_chosen_by_a_condition_with_a_dimension() -> None:
    reduce = {name: _graph([make(name, ["x"], ["r"], keepdims=0)], ["r"])
              for name in ("ReduceMax", "ReduceMin")}  # fmt: skip
    network = _check(_model([_if(*reduce.values(), ["y"])], condition=(1,)))
    assert network.outputs[0].shape == ()


def test_shapes_follow_from_constants_around_and_within() -> None:
    """onnx infers no shape of these: pads that it does not see, or that are computed."""
    computed = [
        _constant("three", [3]),
        make("ConstantOfShape", ["three"], ["none"], value=numpy_helper.from_array(np.array([0]))),
        _constant("one", [1]),
        make("Concat", ["one", "none"], ["amounts"], axis=0),
        make("Pad", ["x", "amounts"], ["p"], mode="reflect"),
    ]
    around = _graph([make("Pad", ["x", "pads"], ["p"], mode="edge")], ["p"])
    choice = _if(around, _graph(computed, ["p"]), ["y"])
    network = _check(_model([choice], {"pads": np.array([1, 0, 0, 0])}))
    assert network.outputs[0].shape == (3, 8)


def test_names_that_are_those_of_the_graph_around() -> None:
    """Of the results, and such as a branch's values could get here."""
    then = [make("Mul", ["x", "t"], ["y"]), make("Add", ["y", "t"], ["t2"])]
    otherwise = [make("Sub", ["x", "t"], ["y"]), make("Exp", ["y"], ["t2"])]
    nodes = [
        make("Tanh", ["x"], ["t"]),
        make("Exp", ["x"], ["y/then_branch/y"]),
        _if(_graph(then, ["t2"]), _graph(otherwise, ["t2"]), ["y"]),
        make("Add", ["y/then_branch/y", "t"], ["y1"]),
    ]
    _check(_model(nodes, kinds=(FLOAT, FLOAT)))


def test_a_constant_condition_takes_a_branch_with_names_of_the_graph_around() -> None:
    then = _graph([make("Neg", ["x"], ["y"]), make("Exp", ["y"], ["z"])], ["z"])
    nodes = [make("Abs", ["x"], ["y/y"]), _if(then, then, ["y"], "always"),
             make("Add", ["y/y", "y"], ["y1"])]  # fmt: skip
    _check(_model(nodes, {"always": np.array(True)}, (FLOAT, FLOAT)))


def test_names_of_nested_graphs_that_hide_others() -> None:
    hides = _graph([make("Mul", ["x", "a"], ["r"])], ["r"], {"a": np.float32(2)})
    plain = _graph([make("Mul", ["x", "a"], ["r"])], ["r"])
    then = _graph([make("Neg", ["x"], ["a"]), _if(hides, plain, ["z"], "big")], ["z"])
    nodes = [
        make("ReduceSum", ["x"], ["sum"], keepdims=0),
        make("Greater", ["sum", "zero"], ["big"]),
        _if(then, _graph([make("Abs", ["x"], ["z"])], ["z"]), ["y"]),
    ]
    graph = from_onnx(_model(nodes, {"zero": np.float32(0)})).graph
    for x, wanted in ((np.abs(X), 2 * np.abs(X)), (-np.abs(X), -X * X)):
        found = evaluate(graph, {"x": x, "c": np.array(True)})["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_branches_within_branches_and_values_from_around() -> None:
    leaf = {n: _graph([make(n, ["t"], ["leaf"])], ["leaf"]) for n in ("Exp", "Abs")}
    middle = _graph([make("Neg", ["x"], ["t"]), _if(*leaf.values(), ["m"], "big")], ["m"])
    flat = _graph([make("Sigmoid", ["t0"], ["m"])], ["m"])
    nodes = [
        make("Tanh", ["x"], ["t0"]),
        make("ReduceSum", ["x"], ["sum"], keepdims=0),
        make("Greater", ["sum", "zero"], ["big"]),
        _if(middle, flat, ["y"]),
    ]
    model = _model(nodes, {"zero": np.float32(0)})
    _check(model, np.abs(X))
    _check(model, -np.abs(X))


def test_values_that_pass_through_and_constants() -> None:
    same = _graph([make("Identity", ["x"], ["s"]), _constant("k", [1, 2])], ["s", "k"])
    zeros = _graph(
        [make("Shape", ["x"], ["n"]), make("ConstantOfShape", ["n"], ["s"])], ["s", "k"],
        {"k": np.array([3, 4])},
    )  # fmt: skip
    for graph in (same, zeros):
        graph.output[1].type.tensor_type.elem_type = INT64
    _check(_model([_if(same, zeros, ["y", "y1"])], kinds=(FLOAT, INT64)))


def test_what_is_not_asked_for_changes_nothing() -> None:
    """Logarithms of negative numbers, quotients by zero, and positions out of range."""
    x = np.array([[-1.0, 0.0, 2.0]], np.float32)
    broken = [
        make("Log", ["x"], ["log"]),
        make("Div", ["log", "zero"], ["infinite"]),
        make("Cast", ["x"], ["whole"], to=INT64),
        make("Mul", ["whole", "far"], ["beyond"]),
        make("Add", ["beyond", "far"], ["places"]),
        make("Gather", ["table", "places"], ["rows"]),
        make("Div", ["places", "none"], ["endless"]),
        make("Cast", ["endless"], ["number"], to=FLOAT),
        make("Sum", ["infinite", "rows", "number"], ["r"]),
    ]
    good = _graph([make("Neg", ["x"], ["r"])], ["r"])
    constants = {"zero": np.float32(0), "far": np.array(10**6), "none": np.array(0),
                 "table": np.arange(3, dtype=np.float32)}  # fmt: skip
    for sides, condition in (((_graph(broken, ["r"]), good), False),
                             ((good, _graph(broken, ["r"])), True)):  # fmt: skip
        network = from_onnx(_model([_if(*sides, ["y"])], constants, x=x))
        assert _on_host(network) == []
        feed = {"x": x, "c": np.array(condition)}
        np.testing.assert_array_equal(evaluate(network.graph, feed)["y"], -x)
        module = asd.compile(network, threads=1, effort="none")
        np.testing.assert_array_equal(module.run(feed)["y"], -x)


def test_branches_that_kernels_cannot_compute_stay_on_the_host() -> None:
    square = np.random.default_rng(2).standard_normal((3, 3), dtype=np.float32)
    then = _graph([make("Det", ["x"], ["d"])], ["d"])
    otherwise = _graph([make("ReduceMax", ["x"], ["d"], keepdims=0)], ["d"])
    _check(_model([_if(then, otherwise, ["y"])], x=square), square, ["If"])


def test_strings_stay_on_the_host() -> None:
    text = {name: np.array([name], object) for name in "ab"}
    words = [_graph([make("StringConcat", ["a", n], ["w"])], ["w"], kind=TensorProto.STRING)
             for n in "ab"]  # fmt: skip
    nodes = [_if(words[0], words[1], ["w"]), make("Equal", ["w", "aa"], ["y"])]
    model = _model(nodes, text | {"aa": np.array(["aa"], object)}, (BOOL,))
    model.opset_import[0].version = 20
    network = from_onnx(model)
    assert _on_host(network) == ["If", "Equal"]
    for condition in (True, False):
        found = evaluate(network.graph, {"x": X, "c": np.array(condition)})["y"]
        assert found == [condition]


def test_sequences_stay_on_the_host() -> None:
    parts = []
    for axis in (0, 1):
        node = make("SplitToSequence", ["x"], ["s"], axis=axis)
        value = helper.make_tensor_sequence_value_info("s", FLOAT, None)
        parts.append(helper.make_graph([node], "parts", [], [value]))
    nodes = [_if(parts[0], parts[1], ["s"]), make("SequenceLength", ["s"], ["y"])]
    network = from_onnx(_model(nodes, kinds=(INT64,)))
    feed = {"x": X, "c": np.array(False)}
    assert evaluate(network.graph, feed)["y"] == 8


def test_shapes_that_differ_are_one_error_with_advice() -> None:
    then = _graph([make("Concat", ["x", "x"], ["r"], axis=0)], ["r"])
    model = _model([_if(then, _graph([make("Neg", ["x"], ["r"])], ["r"]), ["y"])])
    with pytest.raises(asd.AutoschedError) as caught:
        from_onnx(model)
    text = str(caught.value)
    assert "If 'y' (its branches give float32[4, 8] and float32[2, 8])" in text
    assert "from_onnx(path, values={'c': ...})" in text and "--value c=..." in text


def test_results_that_nothing_reads_may_differ() -> None:
    sides = [
        _graph([make("Abs", ["x"], ["a"]), make("ReduceSum", ["x"], ["b"], keepdims=k)], ["a", "b"])
        for k in (0, 1)
    ]
    _check(_model([_if(*sides, ["y", "unread"])]))


def test_an_if_that_is_imported_is_no_reason_to_fix_inputs() -> None:
    sides = [_graph([make(name, ["x"], ["r"])], ["r"]) for name in ("Abs", "Neg")]
    model = _model([_if(*sides, ["r"]), make("Fancy", ["r"], ["y"], domain="mine")])
    model.opset_import.append(helper.make_opsetid("mine", 1))
    with pytest.raises(asd.AutoschedError, match="Fancy") as caught:
        from_onnx(model)
    assert "values=" not in str(caught.value)


def test_data_that_decide_get_no_advice_to_fix_them() -> None:
    then = _graph([make("Concat", ["x", "x"], ["r"], axis=0)], ["r"])
    nodes = [
        make("ReduceSum", ["x"], ["sum"], keepdims=0),
        make("Cast", ["sum"], ["any"], to=BOOL),
        _if(then, _graph([make("Neg", ["x"], ["r"])], ["r"]), ["y"], "any"),
    ]
    with pytest.raises(asd.AutoschedError, match="its branches give") as caught:
        from_onnx(_model(nodes))
    assert "values=" not in str(caught.value)


def _for_four(operator: str = "Identity") -> onnx.GraphProto:
    """What works on rows of four numbers only."""
    nodes = [make("MatMul", ["x", "square"], ["m"]), make(operator, ["m"], ["r"])]
    return _graph(nodes, ["r"], {"square": np.eye(4, dtype=np.float32)})


def test_a_branch_that_no_data_of_these_shapes_fit_gives_nan() -> None:
    model = _model([_if(_graph([make("Neg", ["x"], ["r"])], ["r"]), _for_four(), ["y"])])
    with pytest.warns(AutoschedWarning, match="If 'y': its else_branch cannot be computed"):
        network = from_onnx(model)
    assert _on_host(network) == []
    module = asd.compile(network, threads=1, effort="none")
    np.testing.assert_array_equal(module.run({"x": X, "c": np.array(True)})["y"], -X)
    assert np.isnan(module.run({"x": X, "c": np.array(False)})["y"]).all()


def test_no_branch_that_data_of_these_shapes_fit_is_an_error() -> None:
    model = _model([_if(_for_four(), _for_four("Abs"), ["y"])])
    with pytest.raises(asd.AutoschedError, match="neither branch can be computed"):
        from_onnx(model)


def test_an_operator_that_is_not_known_is_no_branch_that_fails() -> None:
    """Nothing says that the branch fails: its results must not become NaN."""
    unknown = _graph([make("Fancy", ["x"], ["r"], domain="mine")], ["r"])
    model = _model([_if(_graph([make("Neg", ["x"], ["r"])], ["r"]), unknown, ["y"])])
    model.opset_import.append(helper.make_opsetid("mine", 1))
    with pytest.raises(asd.AutoschedError, match=r"values=\{'c': \.\.\.\}"):
        from_onnx(model)


def test_random_numbers_of_a_branch_that_is_not_taken_are_no_obstacle() -> None:
    drawn = _graph([make("RandomNormalLike", ["x"], ["r"])], ["r"])
    model = _model([_if(drawn, _graph([make("Neg", ["x"], ["r"])], ["r"]), ["y"])])
    with pytest.raises(asd.AutoschedError, match=r"draws new random .*values=\{'c': \.\.\.\}"):
        from_onnx(model)
    network = from_onnx(model, values={"c": False})
    np.testing.assert_array_equal(evaluate(network.graph, {"x": X})["y"], -X)
    with pytest.raises(asd.AutoschedError, match="RandomNormalLike"):
        from_onnx(model, values={"c": True})


def test_one_constant_of_both_branches_is_a_constant() -> None:
    """Axes, which decide on a shape."""
    sides = [_graph([make(name, ["x"], ["r"]), _constant("k", [1])], ["r", "k"])
             for name in ("Abs", "Neg")]  # fmt: skip
    for graph in sides:
        graph.output[1].type.tensor_type.elem_type = INT64
    nodes = [_if(*sides, ["r", "k"]), make("ReduceSum", ["r", "k"], ["y"], keepdims=0),
             make("Identity", ["k"], ["y1"])]  # fmt: skip
    assert _check(_model(nodes, kinds=(FLOAT, INT64))).outputs[0].shape == (2,)


def test_constants_of_branches_that_differ_in_anything_are_chosen() -> None:
    sides = [_graph([], ["k", "m"], {"k": np.array([zero, 1], np.float32),
                                     "m": np.float32(value)})
             for zero, value in ((0.0, 2), (-0.0, 3))]  # fmt: skip
    nodes = [_if(*sides, ["k", "m"]), make("Reciprocal", ["k"], ["y"]),
             make("Add", ["x", "m"], ["y1"])]  # fmt: skip
    _check(_model(nodes, kinds=(FLOAT, FLOAT)))


@pytest.mark.parametrize("shape", [(2,), (0,)])
def test_a_condition_of_other_than_one_element_is_an_error(shape: tuple[int]) -> None:
    sides = [_graph([make(name, ["x"], ["r"])], ["r"]) for name in ("Abs", "Neg")]
    with pytest.raises(asd.AutoschedError, match=r"its condition has type bool.* one element"):
        from_onnx(_model([_if(*sides, ["y"])], condition=shape))
    constant = _model([_if(*sides, ["y"], "fixed")], {"fixed": np.zeros(shape, np.bool_)})
    with pytest.raises(asd.AutoschedError, match=r"node y \(If\)"):
        from_onnx(constant)
