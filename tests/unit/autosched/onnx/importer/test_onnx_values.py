"""ONNX import: inputs that are given a value are constants."""

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network
from autosched.onnx.importer import from_onnx

X = np.arange(6, dtype=np.float32).reshape(2, 3)
make, info = helper.make_node, helper.make_tensor_value_info


def _model(
    kind: int = TensorProto.INT64, shape: Sequence[int | str] = (), version: int = 9
) -> onnx.ModelProto:
    """``y = x * cast(k)`` and ``k`` itself."""
    nodes = [make("Cast", ["k"], ["number"], to=TensorProto.FLOAT),
             make("Mul", ["x", "number"], ["y"]), make("Identity", ["k"], ["same"])]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "scaled",
        [info("x", TensorProto.FLOAT, ["n", 3]), info("k", kind, shape)],
        [info("y", TensorProto.FLOAT, None), info("same", kind, None)],
    )
    opsets = [helper.make_opsetid("", 13 if version > 3 else 8)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=version)


def _results(model: onnx.ModelProto, value: Any) -> tuple[Network, Mapping[str, np.ndarray]]:
    network = from_onnx(model, {"x": (2, 3)}, {"k": value})
    assert [given.name for given in network.inputs] == ["x"]
    return network, evaluate(network.graph, {"x": X})


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TensorProto.INT64, 5),
        (TensorProto.INT32, np.int64(-2)),
        (TensorProto.UINT8, np.array(200)),
        (TensorProto.FLOAT, 0.1),
        (TensorProto.FLOAT, 3),
        (TensorProto.DOUBLE, np.float32(0.5)),
        (TensorProto.BOOL, True),
    ],
)
def test_a_value_is_a_constant_of_the_inputs_type(kind: int, value: Any, version: int) -> None:
    network, found = _results(_model(kind, version=version), value)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    assert network.outputs[1].dtype == str(dtype)
    np.testing.assert_allclose(found["y"], X * np.float32(value), rtol=1e-6)
    np.testing.assert_allclose(found["same"], np.asarray(value).astype(dtype))


def test_a_number_of_a_type_that_numpy_does_not_have() -> None:
    _, found = _results(_model(TensorProto.BFLOAT16), ml_dtypes.bfloat16(0.5))
    np.testing.assert_array_equal(found["y"], X / 2)
    _, found = _results(_model(TensorProto.BFLOAT16), 0.5)
    np.testing.assert_array_equal(found["y"], X / 2)


def test_one_number_stands_for_all_elements() -> None:
    _, found = _results(_model(shape=(1,)), 4)
    assert found["same"].tolist() == [4]
    _, found = _results(_model(shape=(3,)), 4)
    assert found["same"].tolist() == [4, 4, 4]


def test_an_array_says_the_shape_as_well() -> None:
    _, found = _results(_model(shape=("m",)), [1, 2, 3])
    np.testing.assert_array_equal(found["y"], X * [1, 2, 3])
    with pytest.raises(asd.AutoschedError, match=r"input shapes are not static: k \(m,\)"):
        _results(_model(shape=("m",)), 2)
    shared = _model(shape=("n", 1))
    _, found = _results(shared, [[1], [2]])
    np.testing.assert_array_equal(found["y"], X * [[1], [2]])
    with pytest.raises(asd.AutoschedError, match=r"\(3, 1\) does not fit input 'k'"):
        _results(shared, np.ones((3, 1), np.int64))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TensorProto.INT64, 1.5),
        (TensorProto.INT64, 2.0),
        (TensorProto.INT64, True),
        (TensorProto.INT32, 2**40),
        (TensorProto.UINT8, -1),
        (TensorProto.INT64, 2**70),
        (TensorProto.BOOL, 1),
        (TensorProto.FLOAT, True),
        (TensorProto.FLOAT, 1e300),
        (TensorProto.FLOAT, 1j),
        (TensorProto.FLOAT, "fast"),
        (TensorProto.FLOAT, None),
        (TensorProto.FLOAT, [[1], [1, 2]]),
        (TensorProto.FLOAT, {"a": 1}),
    ],
)
def test_values_that_do_not_fit_are_one_error(kind: int, value: Any) -> None:
    with pytest.raises(asd.AutoschedError, match=r"value of input 'k' does not fit: "):
        _results(_model(kind), value)


def test_shapes_and_names_that_do_not_fit() -> None:
    shapes = {"x": (2, 3)}
    with pytest.raises(asd.AutoschedError, match=r"values names 'q'.*inputs: x, k"):
        from_onnx(_model(), shapes, {"q": 1})
    with pytest.raises(asd.AutoschedError, match=r"\(2,\) does not fit input 'k'"):
        from_onnx(_model(), shapes, {"k": [1, 2]})
    with pytest.raises(asd.AutoschedError, match=r"shape \(1,\), the input has \(3,\)"):
        from_onnx(_model(shape=(3,)), shapes | {"k": (3,)}, {"k": [1]})
    for values in ([1], "k", 5):
        with pytest.raises(asd.AutoschedError, match=r"values are .*by the names of inputs"):
            from_onnx(_model(), shapes, values)  # type: ignore[arg-type]


def test_the_model_stays_as_it_is() -> None:
    model = _model()
    before = model.SerializeToString()
    _results(model, 5)
    assert model.SerializeToString() == before


def test_a_value_decides_shapes_and_branches() -> None:
    """As ``use_cache_branch`` of decoders that have both of their forms in one file."""
    sides = []
    for node in (make("Concat", ["x", "past"], ["r"], axis=0), make("Neg", ["x"], ["r"])):
        result = [info("r", TensorProto.FLOAT, None)]
        sides.append(helper.make_graph([node], "branch", [], result))
    nodes = [
        make("If", ["use_cache_branch"], ["chosen"], then_branch=sides[0], else_branch=sides[1]),
        make("Reshape", ["chosen", "shape"], ["y"]),
    ]
    inputs = [info("x", TensorProto.FLOAT, (2, 3)), info("past", TensorProto.FLOAT, (2, 3)),
              info("use_cache_branch", TensorProto.BOOL, (1,)),
              info("shape", TensorProto.INT64, (2,))]  # fmt: skip
    graph = helper.make_graph(nodes, "merged", inputs, [info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    feed = {"x": X, "past": X + 1}
    for use, wanted in ((True, np.concatenate([X, X + 1])), (False, -X)):
        values = {"use_cache_branch": use, "shape": [-1, 1]}
        network = asd.from_onnx(model, values=values)
        assert [value.name for value in network.inputs] == ["x", "past"]
        found = asd.compile(network, threads=1, effort="none").run(feed)["y"]
        np.testing.assert_array_equal(found, wanted.reshape(-1, 1))


def test_strings_and_values_that_are_outputs() -> None:
    text = [info("s", TensorProto.STRING, (2,))]
    graph = helper.make_graph(
        [make("Neg", ["x"], ["y"])], "g",
        [info("x", TensorProto.FLOAT, (2, 3)), *text], [info("y", TensorProto.FLOAT, None), *text],
        [numpy_helper.from_array(np.array(1), "unused")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    module = asd.compile(from_onnx(model, values={"s": ["a", "b"]}), threads=1, effort="none")
    assert module.run({"x": X})["s"].tolist() == ["a", "b"]


def test_names_of_several_types_are_one_error() -> None:
    with pytest.raises(asd.AutoschedError, match="values names 1, which is no input"):
        from_onnx(_model(), {"x": (2, 3)}, {1: 2, "other": 3})  # type: ignore[dict-item]


def test_an_integer_that_no_type_holds_is_said_to_be_one() -> None:
    with pytest.raises(asd.AutoschedError, match=r"1180591620717411303424 is beyond all integers"):
        from_onnx(_model(), {"x": (2, 3)}, {"k": 2**70})


def test_one_number_for_extents_that_another_input_says() -> None:
    model = _model(TensorProto.FLOAT, ("n", 3))
    network = from_onnx(model, {"x": (2, 3)}, {"k": 4})
    assert network.outputs[1].shape == (2, 3)
    np.testing.assert_array_equal(evaluate(network.graph, {"x": X})["y"], 4 * X)
    with pytest.raises(asd.AutoschedError, match=r"not static: k \(m, 3\)"):
        from_onnx(_model(TensorProto.FLOAT, ("m", 3)), {"x": (2, 3)}, {"k": 4})
