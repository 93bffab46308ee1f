"""``from_onnx``: reads a model and builds the network from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from autosched.graph.errors import ModelImportError, UnsupportedModelError
from autosched.graph.ir import Network, Value
from autosched.graph.ops.base import TensorType
from autosched.onnx.importer.conversion import Conversion
from autosched.onnx.importer.load import load_model
from autosched.onnx.importer.piece import dtype_name, type_of
from autosched.onnx.importer.shapes import (
    Shapes,
    input_values,
    shapes_do_not_fit,
    with_static_inputs,
)
from autosched.onnx.importer.values import Values, fixed, given_arrays


def from_onnx(
    source: str | Path | bytes | onnx.ModelProto,
    shapes: Shapes | None = None,
    values: Values | None = None,
) -> Network:
    """Import an ONNX model (a file, its bytes, or the model itself) as a network.

    Nodes without a kernel run on the host, where onnx's reference implementation has them
    and their results have static shapes.

    Args:
        source: path of the ``.onnx`` file, its bytes, or a loaded model.
        shapes: shapes of inputs, by name; needed where the model has symbolic dimensions.
        values: values of inputs, by name, which become constants: numbers or arrays.

    Raises:
        ModelImportError: the file is broken, an input has no static shape, a value does not fit its
            input, weights hold NaN, or nodes are not supported (the message lists all of them).
    """
    model = load_model(source)
    arrays = given_arrays(values)
    model, inputs = fixed(model, input_values(model, shapes, arrays), arrays)
    static, complaint = with_static_inputs(model, inputs)
    name = Path(source).stem if isinstance(source, str | Path) else model.graph.name or "onnx"
    promised = _promised(model, static, inputs)
    conversion = Conversion(name, static, inputs, promised)
    try:
        network = conversion.run()
    except UnsupportedModelError as error:
        if complaint is None:
            raise
        raise shapes_do_not_fit(complaint, model, inputs, conversion.values_advice) from error
    firm = {n: kind for n, kind in promised.items() if n in conversion.assumed}
    _check_types(network, static, firm)
    return network


def _promised(
    model: onnx.ModelProto, static: onnx.ModelProto, inputs: Sequence[Value]
) -> dict[str, TensorType]:
    """Types that the model states for its values, where onnx does not infer others.

    Those of inner values only of a model that states the shapes of its inputs: what it states may
    else belong to other shapes than the caller's.  What contradicts what is inferred is left from
    other inputs, too.
    """
    stated = {info.name: type_of(info) for info in (*model.graph.value_info, *model.graph.output)}
    known = {name: kind for name, kind in stated.items() if kind is not None}
    outputs = {info.name for info in model.graph.output}
    own = {info.name: type_of(info) for info in model.graph.input}
    closed = all(own[value.name] == value.type for value in inputs)
    found = {info.name: info for info in (*static.graph.value_info, *static.graph.output)}
    return {
        name: kind
        for name, kind in known.items()
        if (name in outputs or closed) and (name not in found or _may_be(found[name], kind))
    }


def _may_be(info: onnx.ValueInfoProto, kind: TensorType) -> bool:
    """Whether all that is known of a value allows the type."""
    tensor = info.type.tensor_type
    if tensor.elem_type and dtype_name(tensor.elem_type) != kind.dtype:
        return False
    if not tensor.HasField("shape"):
        return True
    extents = [
        d.dim_value if d.WhichOneof("value") == "dim_value" else -1 for d in tensor.shape.dim
    ]
    return len(extents) == len(kind.shape) and all(
        extent in (-1, wanted) for extent, wanted in zip(extents, kind.shape, strict=True)
    )


def _check_types(network: Network, model: onnx.ModelProto, firm: Mapping[str, TensorType]) -> None:
    """Our types must be those that onnx infers, and ``firm`` ones, which ours rest on too little to
    contradict.
    """
    infos = {info.name: info for info in model.graph.output}
    for value in network.outputs:
        info = infos[value.name]
        stated = dtype_name(info.type.tensor_type.elem_type)
        types = (type_of(info), firm.get(value.name))
        other = next((kind for kind in types if kind not in (None, value.type)), None)
        if other is not None or stated not in (None, value.dtype):
            raise ModelImportError(
                f"output {value.name!r} has type {value.type}, the model states {other or stated}",
                f"model {network.name}",
                "check the model with onnx.checker",
            )
