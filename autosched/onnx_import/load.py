"""Reading and checking an ONNX model, before anything is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError
from onnx import checker, external_data_helper, inliner

from autosched.graph.errors import ModelImportError

_OLDEST_OPSET: Final = 7  # the first with today's broadcasting rules
_NOT_ONNX: Final = "give a model that onnx.checker accepts"


def load_model(source: str | Path | onnx.ModelProto) -> onnx.ModelProto:
    """A checked model, its weights in memory, its local functions inlined.

    Raises:
        ModelImportError: no such file, not an ONNX model, truncated, weights missing, too old.
    """
    where = "ONNX model" if isinstance(source, onnx.ModelProto) else f"file {source}"
    model = source if isinstance(source, onnx.ModelProto) else _read(Path(source), where)
    if not model.ir_version or not model.graph.output or not model.opset_import:
        raise ModelImportError("this is no ONNX model, or only a piece of one", where, _NOT_ONNX)
    _check_weights_present(model, where)
    try:
        checker.check_model(_with_output_shapes(model))
    except checker.ValidationError as error:
        raise ModelImportError(
            f"the model is invalid: {_first_line(error)}", where, _NOT_ONNX
        ) from error
    if opset_of(model) < _OLDEST_OPSET:
        raise ModelImportError(
            f"the model uses opset {opset_of(model)}",
            where,
            f"export it with opset {_OLDEST_OPSET} or later (onnx.version_converter)",
        )
    return inliner.inline_local_functions(model) if model.functions else model


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the default operator set; 0 if the model does not use it."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    return max(versions, default=0)


def _read(path: Path, where: str) -> onnx.ModelProto:
    if not path.is_file():
        raise ModelImportError("there is no such file", where, "check the path")
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError, OSError) as error:
        raise ModelImportError(
            f"this is no ONNX model, or it is truncated: {_first_line(error)}", where, _NOT_ONNX
        ) from error
    try:
        external_data_helper.load_external_data_for_model(model, str(path.parent))
    except (checker.ValidationError, OSError, ValueError) as error:
        raise ModelImportError(
            f"weights stored outside the model cannot be read: {_first_line(error)}",
            where,
            "put the data file next to the model",
        ) from error
    return model


def _check_weights_present(model: onnx.ModelProto, where: str) -> None:
    for tensor in model.graph.initializer:
        if external_data_helper.uses_external_data(tensor):
            raise ModelImportError(
                f"the data of {tensor.name!r} is not in the model",
                where,
                "give the path of the file, or load the model with its external data",
            )


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
