"""How far each quantised value of an ONNX model is from the exact one, given what was quantised
before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array = NDArray[Any]
Arrays = Mapping[str, Array]


class DequantizeLinear(OpRun):
    """``(x - zero_point) * scale`` in float64."""

    op_domain = ""

    def _run(
        self, x: Array, scale: Array, zero: Array | None = None, axis: int = 1, **_: Any
    ) -> tuple[Array]:
        points = np.zeros(1) if zero is None else np.asarray(zero, np.float64)
        shape = [-1 if d == axis % x.ndim else 1 for d in range(x.ndim)]
        factors = [np.asarray(a, np.float64).reshape(-1) for a in (points, scale)]
        point, factor = (a.reshape(shape) if a.size > 1 else a.reshape(()) for a in factors)
        return ((x.astype(np.float64) - point) * factor,)


def with_quantised_outputs(model: Any) -> Any:
    """The model, with every quantised value of it as an output as well."""
    found = onnx.shape_inference.infer_shapes(model)
    known = {value.name: value for value in found.graph.value_info}
    own = {value.name for value in found.graph.output}
    names = [node.output[0] for node in _quantisations(model)]
    found.graph.output.extend(known[name] for name in names if name not in own)
    return found


def quanta_off(model: Any, data: Arrays, run: Callable[[Any, Arrays], Arrays]) -> dict[str, float]:
    """For each quantised value the largest distance from the exact quotient, in quanta.

    What a layer reads are the quantised values as ``run`` found them, so errors of layers do not
    add up.  Rounding alone makes a half.

    Args:
        model: with a scale and a zero point for each tensor that QuantizeLinear makes.
        data: inputs by name.
        run: of a model and its inputs, the outputs by name.
    """
    model = with_quantised_outputs(model)
    values = {**data, **run(model, data)}
    known = {node.output[0] for node in _quantisations(model)} | set(data)
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    errors = {}
    for node in _quantisations(model):
        scale, zero = (constants[name] for name in node.input[1:])
        limits = np.iinfo(zero.dtype)
        exact = _exact(model, node.input[0], known, values) / float(scale) + float(zero)
        wanted = np.clip(exact, limits.min, limits.max)
        found = values[node.output[0]].astype(np.float64)
        errors[node.output[0]] = float(np.abs(found - wanted).max())
    return errors


def _quantisations(model: Any) -> list[Any]:
    return [node for node in model.graph.node if node.op_type == "QuantizeLinear"]


def _exact(model: Any, name: str, known: set[str], values: Arrays) -> Array:
    """A value in float64, computed from known ones."""
    if name in known:
        return values[name].astype(np.float64)
    makers = {output: node for node in model.graph.node for output in node.output}
    needed, read = [name], set()
    nodes: list[Any] = []
    while needed:
        place = needed.pop()
        if place in known or place not in makers:
            read.add(place)
        elif makers[place] not in nodes:
            nodes.append(makers[place])
            needed += [value for value in nodes[-1].input if value]
    order = [node for node in model.graph.node if node in nodes]
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in read & known]
    result = helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, None)
    constants = [_wide(i) for i in model.graph.initializer if i.name in read]
    graph = helper.make_graph(order, "layer", inputs, [result], constants)
    layer = helper.make_model(graph, opset_imports=model.opset_import)
    evaluator = ReferenceEvaluator(layer, new_ops=[DequantizeLinear])
    (found,) = evaluator.run(None, {value: values[value] for value in read & known})
    assert found.dtype == np.float64
    return np.asarray(found)


def _wide(tensor: Any) -> Any:
    """A constant; of floats in float64."""
    array = numpy_helper.to_array(tensor)
    return numpy_helper.from_array(
        array.astype(np.float64) if array.dtype == np.float32 else array, tensor.name
    )
