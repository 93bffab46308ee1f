"""ONNX import of convolutions and transposed convolutions, against onnxruntime and onnx."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from autosched.graph.errors import ModelImportError
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Network
from autosched.graph.optimize import optimize
from autosched.onnx.importer import from_onnx
from sketch.oracle.interpret import interpret
from tests.support.onnx_reference import node_model
from tests.support.onnx_sessions import reference_session

Shape = tuple[int, ...]
Case = tuple[str, Shape, Shape, dict[str, Any]]

CASES: list[Case] = [
    # operator, data, weight, attributes; a bias is added to every other case
    ("Conv", (2, 4, 9), (6, 4, 3), {"pads": [1, 2], "strides": [2]}),
    ("Conv", (1, 4, 9), (6, 2, 3), {"group": 2, "dilations": [2]}),
    ("Conv", (1, 3, 5, 6, 7), (4, 3, 2, 3, 3), {"pads": [0, 1, 2, 1, 0, 1]}),
    ("Conv", (1, 4, 5, 6, 7), (4, 1, 3, 3, 3), {"group": 4, "strides": [1, 2, 2]}),
    ("Conv", (1, 4, 5, 6), (8, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    ("Conv", (1, 6, 5, 6), (9, 2, 1, 3), {"group": 3, "strides": [2, 1]}),
    ("Conv", (2, 4, 9), (6, 4, 4), {"auto_pad": "SAME_UPPER", "strides": [2]}),
    ("Conv", (2, 4, 9), (6, 4, 4), {"auto_pad": "SAME_LOWER", "strides": [2]}),
    ("Conv", (2, 4, 9, 8), (6, 4, 3, 2), {"auto_pad": "VALID"}),
    ("ConvTranspose", (2, 4, 5), (4, 6, 3), {"strides": [2], "pads": [1, 0]}),
    ("ConvTranspose", (1, 4, 5, 4), (4, 6, 3, 3), {"strides": [2, 3]}),
    ("ConvTranspose", (1, 4, 5, 4), (4, 6, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    (
        "ConvTranspose",
        (1, 4, 5, 4),
        (4, 6, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]},
    ),
    ("ConvTranspose", (1, 4, 3, 3, 4), (4, 2, 2, 2, 3), {"strides": [1, 2, 2]}),
    ("ConvTranspose", (1, 4, 5, 4), (4, 3, 3, 2), {"group": 2, "strides": [2, 2]}),
    ("ConvTranspose", (1, 4, 5, 4), (4, 1, 3, 3), {"group": 4, "strides": [2, 2]}),
    ("ConvTranspose", (1, 4, 5, 4), (4, 2, 3, 3), {"group": 4, "dilations": [2, 1]}),
    ("ConvTranspose", (1, 4, 5, 4), (4, 6, 3, 3), {"strides": [3, 3], "dilations": [3, 2]}),
    ("ConvTranspose", (1, 4, 5, 4), (4, 6, 3, 3), {"strides": [3, 2], "output_shape": [13, 9]}),
    ("ConvTranspose", (1, 4, 5), (4, 4, 3), {"strides": [2], "output_shape": [12]}),
    ("ConvTranspose", (1, 4, 5, 4), (4, 6, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("ConvTranspose", (1, 4, 5, 4), (4, 6, 3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
    # Windows shorter than the stride: as long as they reach.
    (
        "ConvTranspose",
        (1, 4, 5, 4),
        (4, 3, 1, 3),
        {"group": 2, "auto_pad": "SAME_UPPER", "strides": [3, 2]},
    ),
    ("ConvTranspose", (1, 4, 5, 4), (4, 6, 1, 1), {"strides": [2, 2]}),
    # The output has its extents times the strides, unless windows and output padding end before.
    (
        "ConvTranspose",
        (1, 4, 5, 4),
        (4, 6, 3, 3),
        {"auto_pad": "SAME_UPPER", "strides": [2, 2], "output_padding": [1, 0]},
    ),
    (
        "ConvTranspose",
        (1, 4, 5, 4),
        (4, 3, 1, 2),
        {"group": 2, "auto_pad": "SAME_LOWER", "strides": [3, 3], "output_padding": [1, 2]},
    ),
]


def _model(case: Case, bias: bool) -> onnx.ModelProto:
    operator, data, weight, attributes = case
    rng = np.random.default_rng(5)
    constants = {"w": rng.standard_normal(weight, dtype=np.float32)}
    if bias:
        groups = attributes.get("group", 1)
        outputs = weight[0] if operator == "Conv" else weight[1] * groups
        constants["b"] = rng.standard_normal(outputs, dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node(operator, ["x", *constants], ["z"], **attributes),
            helper.make_node("Relu", ["z"], ["y"]),
        ],
        "case",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, data)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _through_programs(network: Network, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The output, computed task by task as the runtime does."""
    extraction = extract(network)
    values: dict[str, np.ndarray] = dict(inputs)
    for subgraph in extraction.subgraphs:
        arrays = {label: values[value] for label, value in subgraph.inputs.items()}
        shapes = {tensor.name: tensor.shape for tensor in subgraph.dag.inputs}
        arrays = {k: a.reshape(shapes[k]) for k, a in (arrays | dict(subgraph.constants)).items()}
        values[subgraph.output] = interpret(subgraph.dag, arrays)[subgraph.output_name]
    shape = network.outputs[0].shape
    return values[extraction.results["y"]].reshape(shape)


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES)), ids=lambda v: str(v)[:70])
def test_equals_onnxruntime(number: int, case: Case) -> None:
    model = _model(case, bias=number % 2 == 1)
    network = from_onnx(model)
    x = np.random.default_rng(number).standard_normal(case[1], dtype=np.float32)
    session = reference_session(model.SerializeToString())
    wanted = session.run(None, {"x": x})[0]
    assert network.outputs[0].shape == wanted.shape
    for graph in (network.graph, optimize(network.graph)):
        np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(_through_programs(network, {"x": x}), wanted, rtol=1e-4, atol=1e-5)


# onnx's own implementation of ConvTranspose computes one channel of each group, and does not know
# output_shape without auto_pad.
REFERENCE = [c for c in CASES if c[0] == "Conv" or not {"group", "output_shape"} & set(c[3])]


@pytest.mark.parametrize("case", REFERENCE, ids=lambda v: str(v)[:70])
def test_equals_the_reference_of_onnx(case: Case) -> None:
    model = _model(case, bias=False)
    x = np.random.default_rng(1).standard_normal(case[1], dtype=np.float32)
    wanted = ReferenceEvaluator(model).run(None, {"x": x})[0]
    got = evaluate(from_onnx(model).graph, {"x": x})["y"]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "shape"), [("Conv", (6, 2)), ("ConvTranspose", (1, 6, 1)), ("Conv", (5,))]
)
def test_a_bias_has_one_number_for_each_channel(operator: str, shape: tuple[int, ...]) -> None:
    """No evaluator takes another: torch's exporter writes such ones."""
    weight = np.ones((6, 4, 3) if operator == "Conv" else (4, 6, 3), np.float32)
    inputs = {"x": np.ones((1, 4, 5), np.float32)}
    constants = {"w": weight, "b": np.zeros(shape, np.float32)}
    with pytest.raises(ModelImportError, match=r"the bias has shape .*, not \[6\]"):
        from_onnx(node_model(operator, {}, inputs, constants))


def test_epilogues_are_part_of_the_task() -> None:
    for case in CASES:
        kinds = [s.name for s in extract(from_onnx(_model(case, bias=True))).subgraphs]
        assert len([k for k in kinds if "transpose." not in k]) == 1, kinds
