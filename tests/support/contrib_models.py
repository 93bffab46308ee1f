"""Models of one operator of onnxruntime's own domain, and what it computes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.optimize import optimize
from tests.support.onnx_sessions import reference_session

Array = Any
DOMAIN = "com.microsoft"


def floats(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(seed + sum(shape))
    return rng.standard_normal(shape).astype(dtype)


def contrib_model(
    operator: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    constants: Collection[int] = (),
    outputs: Sequence[str] = ("float32",),
    domain: str = DOMAIN,
    opset: int = 17,
) -> Any:
    """One node; inputs are ``x0``, ``x1``, ..., outputs ``y0``, ``y1``, ..., "" for none.

    Args:
        operator: its name.
        inputs: values; None where nothing is given.
        attributes: of the node.
        constants: places of inputs that are initializers.
        outputs: their dtypes.
        domain: of the operator.
        opset: of the default domain.
    """
    from onnx import TensorProto, helper, numpy_helper

    def kind(dtype: Any) -> Any:
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    given = [(f"x{n}", array) for n, array in enumerate(inputs) if array is not None]
    names = ["" if array is None else f"x{n}" for n, array in enumerate(inputs)]
    results = [f"y{n}" if dtype else "" for n, dtype in enumerate(outputs)]
    node = helper.make_node(operator, names, results, domain=domain, **attributes)
    fixed = {f"x{n}" for n in constants}
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(name, kind(array.dtype), array.shape)
            for name, array in given
            if name not in fixed
        ],
        [
            helper.make_tensor_value_info(
                f"y{n}", kind(dtype) if dtype else TensorProto.UNDEFINED, None
            )
            for n, dtype in enumerate(outputs)
            if dtype
        ],
        [numpy_helper.from_array(array, name) for name, array in given if name in fixed],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def inputs_of(model: Any, inputs: Sequence[Array | None]) -> dict[str, Array]:
    """What the model is fed with."""
    names = {info.name for info in model.graph.input}
    return {f"x{n}": array for n, array in enumerate(inputs) if f"x{n}" in names}


def results_of(model: Any, feed: Mapping[str, Array]) -> list[dict[str, Array]]:
    """What the network computes, as it is imported and after all passes; nothing on the host."""
    network = asd.from_onnx(model)
    assert [value.name for value in network.outputs] == [info.name for info in model.graph.output]
    graphs = network.graph, optimize(network.graph)
    assert not any(node.op.on_host for graph in graphs for node in graph)
    return [evaluate(graph, feed) for graph in graphs]


def check_against_onnxruntime(
    operator: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    constants: Collection[int] = (),
    outputs: Sequence[str] = ("float32",),
    tolerance: float = 1e-5,
) -> None:
    """Results are those of onnxruntime.

    Args:
        operator: its name.
        inputs: values; None where nothing is given.
        attributes: of the node.
        constants: places of inputs that are initializers.
        outputs: their dtypes.
        tolerance: relative and absolute.
    """
    model = contrib_model(operator, inputs, attributes, constants, outputs)
    feed = inputs_of(model, inputs)
    names = [info.name for info in model.graph.output]
    expected = reference_session(model.SerializeToString()).run(names, feed)
    for found in results_of(model, feed):
        for name, values in zip(names, expected, strict=True):
            assert found[name].shape == values.shape
            np.testing.assert_allclose(found[name], values, rtol=tolerance, atol=tolerance)
