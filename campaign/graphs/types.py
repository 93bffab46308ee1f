"""The types of a model's values."""

from __future__ import annotations

import onnx
from onnx import helper


def types_of(model: onnx.ModelProto) -> dict[str, tuple[str, list[int]]]:
    """(dtype, shape) of all values of a typed model by name."""
    infos = [*model.graph.input, *model.graph.value_info, *model.graph.output]
    return {
        info.name: (
            str(helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)),
            [dimension.dim_value for dimension in info.type.tensor_type.shape.dim],
        )
        for info in infos
    }
