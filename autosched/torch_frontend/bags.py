"""Embedding bags whose sizes are data, or of which some rows count for nothing.

Torch has two operators for them, with and without gradients; both compute the same.  The exporter
to ONNX writes a loop over the bags, which takes hundreds of times as long as the sums.
"""

from __future__ import annotations

from typing import Any, Final

_SUM, _MEAN = 0, 1  # torch's numbers; 2 is the largest
_Rows = tuple[Any, None, None, None]
_OPERATORS: Final = ("_embedding_bag", "_embedding_bag_forward_only")


def bag_functions() -> dict[Any, Any]:
    """The operators, and what to trace in their place."""
    import torch

    return {getattr(torch.ops.aten, name).default: _embedding_bag for name in _OPERATORS}


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> _Rows:
    """Each row is sent to its bag; those of no bag to one that is left out.

    Args:
        weight: ``[rows, width]``.
        indices: ``[count]``, of rows.
        offsets: where each bag begins, and where the last one ends if ``include_last_offset``.
        scale_grad_by_freq: of gradients only, as ``sparse``.
        mode: what becomes of a bag.
        sparse: see ``scale_grad_by_freq``.
        per_sample_weights: ``[count]``, factors of the rows.
        include_last_offset: whether the last offset is an end.
        padding_idx: the row that counts for nothing; negative if there is none.
    """
    bags = offsets.shape[0] - int(include_last_offset)
    places = _bag_of_each(indices, offsets)
    if padding_idx >= 0:
        places = places.where(indices != padding_idx, bags)
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    empty = rows.new_zeros((bags + 1, rows.shape[1]))
    if mode not in (_SUM, _MEAN):
        spread = places[:, None].expand(rows.shape)
        largest = empty.scatter_reduce(0, spread, rows, "amax", include_self=False)
        return largest[:bags], None, None, None
    sums = empty.index_add(0, places, rows)[:bags]
    if mode == _MEAN:
        ones = rows.new_ones(indices.shape)
        counts = rows.new_zeros((bags + 1,)).index_add(0, places, ones)[:bags]
        sums = sums / counts.clamp(min=1)[:, None]
    return sums, None, None, None


def _bag_of_each(indices: Any, offsets: Any) -> Any:
    """How many bags have begun at each index, less one: ``[count]``, int64."""
    import torch

    count = indices.shape[0]
    begun = torch.zeros(count + 1, dtype=torch.int64)
    begun = begun.index_add(0, offsets, torch.ones(offsets.shape, dtype=torch.int64))
    return begun[:count].cumsum(0) - 1
