"""Models of one ONNX node, and the comparison of what becomes of them with reference results."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.optimize import optimize
from tests.support.onnx_sessions import reference_session

Array = NDArray[Any]
RUN_BY_ONNXRUNTIME = ("MaxPool", "AveragePool", "GlobalMaxPool", "LRN", "LpNormalization")


def values(*shape: int, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(len(shape) + sum(shape))
    if dtype == "bool":
        return rng.random(shape) < 0.7
    if dtype == "float32":
        return rng.standard_normal(shape, dtype=np.float32)
    return rng.integers(-4, 5, shape).astype(dtype)


def node_model(
    operator: str,
    data: Sequence[Array],
    constants: Sequence[Array | None] = (),
    opset: int = 22,
    outputs: int = 1,
    **attributes: Any,
) -> Any:
    """One node; ``data`` are inputs x0, x1, ..., ``constants`` (None: not given) follow them."""
    inputs = [f"x{i}" for i in range(len(data))]
    names = ["" if c is None else f"c{i}" for i, c in enumerate(constants)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, [*inputs, *names], results, **attributes)
    body = helper.make_graph(
        [node],
        "node",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(inputs, data, strict=True)
        ],
        [helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in results],
        [
            numpy_helper.from_array(np.asarray(c), n)
            for n, c in zip(names, constants, strict=True)
            if c is not None
        ],
    )
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model)
    for place, value in enumerate(inferred.graph.output):
        model.graph.output[place].CopyFrom(value)
        tensor = model.graph.output[place].type.tensor_type
        tensor.elem_type = tensor.elem_type or helper.np_dtype_to_tensor_dtype(data[0].dtype)
    return model


def check(model: Any, data: Sequence[Array], **tolerance: float) -> None:
    """The imported graph and the optimised one agree with onnx's reference implementation.

    That one is wrong for pools of volumes and for LRN: there onnxruntime is the reference.
    """
    feed = {f"x{i}": array for i, array in enumerate(data)}
    if model.graph.node[0].op_type in RUN_BY_ONNXRUNTIME:
        expected = reference_session(model.SerializeToString()).run(None, feed)
    else:
        expected = ReferenceEvaluator(model).run(None, feed)
    network = asd.from_onnx(model)
    for graph in (network.graph, optimize(network.graph)):
        assert not any(node.op.on_host for node in graph)
        found = evaluate(graph, feed)
        for value, reference in zip(found.values(), expected, strict=True):
            assert value.shape == np.shape(reference)
            np.testing.assert_allclose(
                value, reference, **{"rtol": 1e-4, "atol": 1e-5, **tolerance}
            )


def run(model: Any, data: Sequence[Array]) -> list[Array]:
    """Outputs of the compiled model."""
    module = asd.compile(asd.from_onnx(model), target="cpu")
    return list(module.run({f"x{i}": array for i, array in enumerate(data)}).values())
