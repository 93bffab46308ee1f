"""Paddings that torch takes apart into writes, as others."""

from __future__ import annotations

from typing import Any


def padding_functions() -> dict[Any, Any]:
    """ATen operators and the functions to trace in their place."""
    import torch

    aten = torch.ops.aten
    return {aten.pad.default: _pad, aten._pad_circular.default: _circular}


def _pad(x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Around the image, which torch makes of parts that it writes one after another."""
    return _circular(x, pad) if mode == "circular" else NotImplemented


def _circular(x: Any, pad: Any) -> Any:
    """Elements at known places of each dimension; ``pad``: of the last one first."""
    import torch

    for place, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = x.dim() - 1 - place
        if before or after:
            first = max(-before, 0)  # less than nothing is cut off
            kept = x.shape[axis] - first - max(-after, 0)
            places = torch.arange(-max(before, 0), kept + max(after, 0), device=x.device)
            x = x.index_select(axis, first + places % kept)
    return x
