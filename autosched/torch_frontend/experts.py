"""What mixtures of experts are made of and torch's exporter does not know, in terms of others."""

from __future__ import annotations

from typing import Any, Final

_ONE_EACH: Final = 2, 3  # dimensions: rows in groups, and one matrix for each group


def expert_functions() -> dict[Any, Any]:
    """ATen operators, and one of transformers where that is loaded, with functions to trace."""
    import torch

    functions = {
        torch.ops.aten._grouped_mm.default: grouped_product,
        torch.ops.aten.histc.default: _histogram,
    }
    theirs = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    return functions if theirs is None else {**functions, theirs.default: grouped_product}


def grouped_product(
    rows: Any, weights: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Products of groups of rows with a matrix for each group; rows after the last one are 0.

    Where groups start depends on data.  A few rows take the matrix of each; of more rows all
    products are computed, and the one of each row's group is taken.

    Args:
        rows: [n, k], sorted by group.
        weights: [groups, k, m].
        offs: [groups], integers: where each group ends.
        bias: torch knows none yet.
        out_dtype: of the result; None: that of the rows.

    Returns:
        [n, m], or NotImplemented where something else is grouped than rows.
    """
    import torch

    if offs is None or bias is not None or (rows.dim(), weights.dim()) != _ONE_EACH:
        return NotImplemented
    place = torch.arange(rows.shape[0])
    group = (place[:, None] >= offs).sum(1)
    known = group.clamp(max=weights.shape[0] - 1)
    if rows.shape[0] <= weights.shape[0]:
        found = (rows[:, None] @ weights.index_select(0, known))[:, 0]
    else:
        every = rows @ weights
        found = every.gather(0, known[None, :, None].expand(1, *every.shape[1:]))[0]
    found = torch.where((place < offs[-1])[:, None], found, 0.0)
    return found.to(out_dtype or rows.dtype)


def _histogram(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements each of equal intervals has; those outside of all and NaN count nowhere."""
    import torch

    if min == max or not x.dtype.is_floating_point:
        return NotImplemented  # torch takes the least and the largest element
    flat = x.reshape(-1)
    low, high = (torch.full((), limit, dtype=x.dtype) for limit in (min, max))  # torch rounds them
    place = ((flat - low) * bins / (high - low)).floor().clamp(max=bins - 1)
    inside = (flat >= low) & (flat <= high)
    here = (place[:, None] == torch.arange(bins).to(x.dtype)) & inside[:, None]
    return here.sum(0).to(x.dtype)
