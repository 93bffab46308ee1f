"""Reading and checking an ONNX model, before anything is made of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import checker, external_data_helper, inliner, numpy_helper

from autosched.graph.errors import ModelImportError, UnsupportedModelError
from autosched.onnx.importer.domains import DEFAULT_DOMAINS, opset_of
from autosched.onnx.importer.external_data import load_external_data, stored_tensors
from autosched.onnx.importer.inlining import check_inlined_size
from autosched.onnx.importer.node_order import in_order
from autosched.onnx.importer.runtime_dialect import in_common_terms
from autosched.onnx.importer.sparse import make_weights_dense

_OLDEST_OPSET: Final = 7  # the first with today's broadcasting rules
_NOT_ONNX: Final = "give a model that onnx.checker accepts"


def load_model(source: str | Path | bytes | onnx.ModelProto) -> onnx.ModelProto:
    """A checked model, its weights in memory, its local functions inlined.

    Raises:
        ModelImportError: neither path nor model, no such file, not an ONNX model, truncated,
            weights missing.
        UnsupportedModelError: its opset is too old.
    """
    if not isinstance(source, str | Path | bytes | onnx.ModelProto):
        raise ModelImportError(
            f"a model cannot be of type {type(source).__name__}",
            "from_onnx",
            "give the path of a file, its bytes or an onnx.ModelProto",
        )
    where = f"file {source}" if isinstance(source, str | Path) else "ONNX model"
    model = source if isinstance(source, onnx.ModelProto) else _read(source, where)
    if not model.ir_version or not model.graph.output or not model.opset_import:
        raise ModelImportError("this is no ONNX model, or only a piece of one", where, _NOT_ONNX)
    _check_weights_present(model, where)
    model = in_common_terms(in_order(model))
    try:
        checker.check_model(_with_output_shapes(model))
    except Exception as error:  # ValidationError, or what else broken models make onnx raise
        raise ModelImportError(
            f"the model is invalid: {_first_line(error)}", where, _NOT_ONNX
        ) from error
    opset = opset_of(model.opset_import)
    if 0 < opset < _OLDEST_OPSET:
        raise UnsupportedModelError(
            f"the model uses opset {opset}",
            where,
            f"export it with opset {_OLDEST_OPSET} or later (onnx.version_converter)",
        )
    return _normalised(model, where)


def initial_arrays(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    """The model's initializers; strings are objects.

    Raises:
        ModelImportError: the data of one does not fit its shape.
    """
    return {tensor.name: array_of(tensor) for tensor in model.graph.initializer}


def array_of(tensor: onnx.TensorProto) -> NDArray[Any]:
    """The elements of a tensor; strings are objects.

    Raises:
        ModelImportError: its data do not fit its shape.
    """
    try:
        array = np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:  # wrong sizes, unknown types
        raise ModelImportError(
            f"the data of {tensor.name!r} do not fit its type: {_first_line(error)}",
            "from_onnx",
            _NOT_ONNX,
        ) from error
    return array.astype(object) if array.dtype.kind in "US" else array


def _read(source: str | Path | bytes, where: str) -> onnx.ModelProto:
    if not isinstance(source, bytes) and not os.path.isfile(source):
        raise ModelImportError("there is no such file", where, "check the path")
    try:
        if isinstance(source, bytes):
            return onnx.load_from_string(source)
        model = onnx.load(Path(source), load_external_data=False)
    except Exception as error:  # DecodeError, ValueError, UnicodeDecodeError, ...
        raise ModelImportError(
            f"this is no ONNX model, or it is truncated: {_first_line(error)}", where, _NOT_ONNX
        ) from error
    load_external_data(model, Path(source).parent, where)
    return model


def _check_weights_present(model: onnx.ModelProto, where: str) -> None:
    for tensor in stored_tensors(model):
        if external_data_helper.uses_external_data(tensor):
            raise ModelImportError(
                f"the data of {tensor.name!r} is not in the model",
                where,
                "give the path of the file, or load the model with its external data",
            )


def _normalised(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """A copy with functions inlined, dense weights, and one name for the default domain."""
    check_inlined_size(model, where)
    copy = onnx.ModelProto()
    try:
        copy.CopyFrom(inliner.inline_local_functions(model) if model.functions else model)
    except Exception as error:
        raise ModelImportError(
            f"the model's functions cannot be inlined: {_first_line(error)}", where, _NOT_ONNX
        ) from error
    try:
        make_weights_dense(copy)
    except ValueError as error:
        raise ModelImportError(_first_line(error), where, _NOT_ONNX) from error
    for entry in copy.opset_import:
        if entry.domain in DEFAULT_DOMAINS:
            entry.domain = ""
    for node in copy.graph.node:
        if node.domain in DEFAULT_DOMAINS:
            node.domain = ""
    return copy


def _with_output_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model for the checker, which wants some shape on every output; runtimes do not."""
    bare = [index for index, info in enumerate(model.graph.output) if not _has_shape(info)]
    if not bare:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for index in bare:
        copy.graph.output[index].type.tensor_type.shape.SetInParent()
    return copy


def _has_shape(info: onnx.ValueInfoProto) -> bool:
    kind = info.type.WhichOneof("value")
    return kind != "tensor_type" or bool(info.type.tensor_type.HasField("shape"))


def _first_line(error: Any) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
