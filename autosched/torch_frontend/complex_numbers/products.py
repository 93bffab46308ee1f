"""Products of complex matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from autosched.torch_frontend.complex_numbers.pair import is_complex, pair_of, parts_of


def product_functions() -> Mapping[Any, Callable[..., Any]]:
    """ATen operators and what they are for pairs."""
    import torch

    aten = torch.ops.aten
    return {
        aten.mm.default: _product,
        aten.bmm.default: _product,
        aten.mv.default: lambda x, y: _product(x, y.unsqueeze(-1)).squeeze(-1),
        aten.dot.default: lambda x, y: (x * y).sum(),
        aten.addmv.default: partial(_sum, aten.mv.default),
        aten.addbmm.default: partial(_sum, lambda x, y: (x @ y).sum(0)),
        aten.addmm.default: partial(_sum, aten.mm.default),
        aten.baddbmm.default: partial(_sum, aten.bmm.default),
    }


def _product(x: Any, y: Any) -> Any:
    """Both parts of the first matrix are rows of one, so that the second one is read once."""
    import torch

    (a, b), (c, d) = parts_of(x), parts_of(y)
    if not is_complex(x):
        return pair_of(a @ c, a @ d)
    rows = torch.cat([a, b], -2)
    count = a.shape[-2]
    real = rows @ c
    first, second = real.narrow(-2, 0, count), real.narrow(-2, count, count)
    if not is_complex(y):
        return pair_of(first, second)
    crossed = rows @ d
    return pair_of(first - crossed.narrow(-2, count, count), second + crossed.narrow(-2, 0, count))


def _sum(
    product: Callable[[Any, Any], Any],
    addend: Any,
    x: Any,
    y: Any,
    *,
    beta: Any = 1,
    alpha: Any = 1,
) -> Any:
    result = product(x, y)
    result = result if alpha == 1 else result * alpha
    if beta == 0:
        return result
    return result + (addend if beta == 1 else addend * beta)
