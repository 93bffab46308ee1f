"""What bodies of loops are run on, and the results of all iterations together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper


def body_results(node: onnx.NodeProto, count: int) -> list[onnx.ValueInfoProto]:
    """The last ``count`` results of a loop's body, as the model describes them."""
    results = next(a.g.output for a in node.attribute if a.name == "body")
    return list(results)[len(results) - count :]


def joined(arrays: Sequence[Any], info: onnx.ValueInfoProto, axis: int = 0) -> NDArray[Any]:
    """The results of all iterations, stacked along a new ``axis``.

    Raises:
        ValueError: there was no iteration, and the model does not say what one results in.
    """
    if arrays:
        return np.stack(arrays, axis)
    kind = info.type.tensor_type
    known = all(dim.HasField("dim_value") for dim in kind.shape.dim)
    if not kind.elem_type or not kind.HasField("shape") or not known:
        raise ValueError("a loop that collects results ran zero times: their shape is open")
    single = np.zeros([d.dim_value for d in kind.shape.dim], _dtype(kind.elem_type))
    return np.expand_dims(single, axis).take([], axis)


def _dtype(code: int) -> Any:
    return helper.tensor_dtype_to_np_dtype(code)
