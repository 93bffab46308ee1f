"""``from_onnx``: reads a model and builds the network from it."""

from __future__ import annotations

from pathlib import Path

import onnx

from autosched.graph.errors import ModelImportError, UnsupportedModelError
from autosched.graph.ir import Network
from autosched.onnx.importer.conversion import Conversion
from autosched.onnx.importer.load import load_model
from autosched.onnx.importer.piece import dtype_name, type_of
from autosched.onnx.importer.shapes import (
    Shapes,
    input_values,
    shapes_do_not_fit,
    with_static_inputs,
)


def from_onnx(
    source: str | Path | bytes | onnx.ModelProto, shapes: Shapes | None = None
) -> Network:
    """Import an ONNX model (a file, its bytes, or the model itself) as a network.

    Nodes without a kernel run on the host, where onnx's reference implementation has them
    and their results have static shapes.

    Args:
        source: path of the ``.onnx`` file, its bytes, or a loaded model.
        shapes: shapes of inputs, by name; needed where the model has symbolic dimensions.

    Raises:
        ModelImportError: the file is broken, an input has no static shape, weights hold NaN, or
            nodes are not supported (the message lists all of them).
    """
    model = load_model(source)
    inputs = input_values(model, shapes)
    promised = [type_of(info) for info in model.graph.output]
    static, complaint = with_static_inputs(model, inputs)
    name = Path(source).stem if isinstance(source, str | Path) else model.graph.name or "onnx"
    names = (info.name for info in model.graph.output)
    types = {n: kind for n, kind in zip(names, promised, strict=True) if kind is not None}
    try:
        network = Conversion(name, static, inputs, types).run()
    except UnsupportedModelError as error:
        if complaint is None:
            raise
        raise shapes_do_not_fit(complaint) from error
    _check_against_inference(network, static)
    return network


def _check_against_inference(network: Network, model: onnx.ModelProto) -> None:
    """Our types must be those that onnx infers and that the model states."""
    infos = {info.name: info for info in model.graph.output}
    for value in network.outputs:
        info = infos[value.name]
        stated = dtype_name(info.type.tensor_type.elem_type)
        if type_of(info) not in (None, value.type) or stated not in (None, value.dtype):
            raise ModelImportError(
                f"output {value.name!r} has type {value.type}, the model states "
                f"{type_of(info) or stated}",
                f"model {network.name}",
                "check the model with onnx.checker",
            )
