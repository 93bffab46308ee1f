"""Convolutions that torch's exporter gets wrong, as others.

Without a bias, it adds zeros of two dimensions to those of volumes, which no evaluator takes.
"""

from __future__ import annotations

from typing import Any


def convolution_functions() -> dict[Any, Any]:
    """ATen operators and the functions to trace in their place."""
    import torch

    return {torch.ops.aten.conv3d.default: _of_volumes}


def _of_volumes(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """As the general operator, which the exporter does right; it wants a batch."""
    import torch

    if bias is not None:
        return NotImplemented
    batch = x if x.dim() == weight.dim() else x.unsqueeze(0)
    how = ([each] if isinstance(each, int) else each for each in (stride, padding, dilation))
    result = torch.convolution(batch, weight, None, *how, False, [0], groups)
    return result if batch is x else result.squeeze(0)
