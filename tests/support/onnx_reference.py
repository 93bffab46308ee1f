"""One ONNX node, imported and evaluated, against onnx's own reference implementation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

import autosched
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Network
from autosched.graph.optimize import optimize
from autosched.onnx.importer import from_onnx

Arrays = Mapping[str, np.ndarray]


def node_model(
    operator: str,
    attributes: Mapping[str, Any],
    inputs: Arrays,
    constants: Arrays,
    opset: int = 21,
    outputs: Sequence[str] = ("y",),
    order: Sequence[str] | None = None,
) -> onnx.ModelProto:
    """A model of one node.  ``order`` gives its inputs where inputs and constants mix, or are
    left out (empty names).
    """
    names = list(order) if order is not None else [*inputs, *constants]
    graph = helper.make_graph(
        [helper.make_node(operator, names, list(outputs), **attributes)],
        "case",
        [_info(name, array) for name, array in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return shape_inference.infer_shapes(model)


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, array.shape)


def compare(
    model: onnx.ModelProto,
    inputs: Arrays,
    compiled: bool = False,
    expected: Sequence[np.ndarray] | None = None,
    rtol: float = 1e-5,
) -> Network:
    """Import, evaluate before and after the passes (and compiled), compare all outputs.

    ``expected`` replaces the reference's results where it departs from the specification.
    """
    network = from_onnx(model)
    wanted = ReferenceEvaluator(model).run(None, dict(inputs)) if expected is None else expected
    results = [evaluate(graph, inputs) for graph in (network.graph, optimize(network.graph))]
    if compiled:
        results.append(autosched.compile(network).run(dict(inputs)))
    for values in results:
        for value, reference in zip(values.values(), wanted, strict=True):
            assert value.shape == np.shape(reference)
            np.testing.assert_allclose(
                np.asarray(value, np.float64), np.asarray(reference, np.float64), rtol, 1e-6
            )
    kinds = [str(np.asarray(reference).dtype) for reference in wanted]
    assert [value.dtype for value in network.outputs] == kinds
    return network
