"""The ``Scatter`` of host operators, the name of ScatterElements before opset 11: onnx has none."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from onnx.reference.op_run import OpRun


class Scatter(OpRun):
    """Elements replaced at indices along one axis."""

    op_domain: ClassVar[str] = ""

    def _run(self, data: Any, indices: Any, updates: Any, axis: int = 0) -> tuple[Any, ...]:
        result = data.copy()
        np.put_along_axis(_met(result, indices.shape, axis), indices, updates, axis)
        return (result,)


def _met(data: Any, shape: tuple[int, ...], axis: int) -> Any:
    """The part of ``data`` that indices of ``shape`` reach."""
    own = axis % data.ndim
    return data[tuple(slice(None if d == own else extent) for d, extent in enumerate(shape))]
