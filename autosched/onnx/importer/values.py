"""Inputs of a model that the caller gives a value: constants, as if the model had them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray

from autosched.graph.errors import ModelImportError
from autosched.graph.ir import Value
from autosched.onnx.importer.piece import tensor_of, value_info
from autosched.system.element_types import element_type
from sketch.errors import quoted
from sketch.lang.dtypes import is_float

Values = Mapping[str, Any]
Arrays = Mapping[str, NDArray[Any]]

_FIRST_WITHOUT_INPUTS: Final = 4  # version of the format: constants need no inputs of their names


def given_arrays(values: Values | None) -> dict[str, NDArray[Any]]:
    """The values as arrays of whatever type they have.

    Raises:
        ModelImportError: they are no mapping, or one is no number and no array.
    """
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ModelImportError(
            f"values are {quoted(values)}",
            "from_onnx",
            'give numbers or arrays by the names of inputs, such as values={"sr": 16000}',
        )
    return {name: _array(name, value) for name, value in values.items()}


def _array(name: str, value: Any) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except Exception as error:  # ragged lists, and whatever objects of users raise
        raise _no_value(name, f"{quoted(value)} is no array: {error}") from error
    if array.dtype.kind in "US":
        return array.astype(object)
    texts = array.dtype == object and all(isinstance(item, str) for item in array.flat)
    if array.dtype.kind in "OMmc" and not texts:
        if all(isinstance(item, int) for item in array.flat):
            raise _no_value(name, f"{quoted(value)} is beyond all integers of 64 bits")
        raise _no_value(name, f"{quoted(value)} is neither a number nor an array")
    return array


def fixed(
    model: onnx.ModelProto, inputs: Collection[Value], arrays: Arrays
) -> tuple[onnx.ModelProto, tuple[Value, ...]]:
    """The model with constants for those inputs that ``arrays`` names, and the other inputs.

    Args:
        model: the model; it stays as it is.
        inputs: all of its inputs.
        arrays: of names that are among them; one number stands for all elements.

    Raises:
        ModelImportError: an array does not fit the type of its input.
    """
    if not arrays:
        return model, tuple(inputs)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = [info for info in model.graph.input if info.name not in arrays]
    chosen = [value for value in inputs if value.name in arrays]
    if model.ir_version < _FIRST_WITHOUT_INPUTS:
        kept += [value_info(value.name, value.shape, value.dtype) for value in chosen]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend(
        tensor_of(value.name, _fitting(value, arrays[value.name])) for value in chosen
    )
    return copy, tuple(value for value in inputs if value.name not in arrays)


def _fitting(value: Value, array: NDArray[Any]) -> NDArray[Any]:
    """``array`` in the type of an input, which changes no number but for rounding."""
    if array.ndim and array.shape != value.shape:
        raise _no_value(value.name, f"shape {array.shape}, the input has {value.shape}")
    wrong = f"{quoted(array.tolist())} is no {value.dtype}"
    if _kind(str(array.dtype)) not in _taken_by(value.dtype):
        raise _no_value(value.name, wrong)
    if value.dtype == "object":
        return np.broadcast_to(array, value.shape)
    with np.errstate(all="ignore"):
        cast = array.astype(element_type(value.dtype))
    whole = not is_float(value.dtype)
    same = (cast == array) if whole else (np.isfinite(cast) == np.isfinite(array))
    if not np.all(same):
        raise _no_value(value.name, wrong)
    return np.broadcast_to(cast, value.shape)


def _kind(dtype: str) -> str:
    if is_float(dtype):
        return "float"
    return "integer" if dtype.startswith(("int", "uint")) else dtype


def _taken_by(dtype: str) -> tuple[str, ...]:
    """Kinds of numbers that an input takes: whole ones are floats, too, but truth is no number."""
    kind = _kind(dtype)
    return ("integer", "float") if kind == "float" else (kind,)


def _no_value(name: str, what: str) -> ModelImportError:
    return ModelImportError(
        f"the value of input {name!r} does not fit: {what}",
        "from_onnx",
        "give a number, or an array of the input's shape, in its type",
    )
