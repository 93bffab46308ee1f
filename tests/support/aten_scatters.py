"""Calls of the ATen operators that put elements where indices say; loads torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

aten = torch.ops.aten
X: Final = torch.randn((2, 4, 6, 3), generator=torch.Generator().manual_seed(19))
PLACES: Final = torch.tensor([[3, -4, 1], [2, 0, -1]])
ORDER: Final = torch.tensor([3, 0, 2])


def _assigned(x: Any, value: Any, *index: Any) -> Any:
    """``x[index] = value``, without changing ``x``; None: all of a dimension."""
    return aten.index_put(x, list(index), torch.as_tensor(value, dtype=x.dtype))


def _spread(numbers: list[int], axis: int, extents: tuple[int, ...]) -> Any:
    """Places along an axis, the same for all of the others."""
    shape = [1, 1, 1, 1]
    shape[axis] = len(numbers)
    return torch.tensor(numbers).reshape(shape).expand(extents).contiguous()


SCATTERING: Final[Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "_unsafe_index_put.default": (
        lambda x, i: aten._unsafe_index_put(x, [None, i], x[:, :1] * 2, True),
        (X, ORDER),
    ),
    "index_put.default": (
        lambda x, i, p: (
            _assigned(x, x[:, :3] * 2, None, i),
            _assigned(x, 2.5, None, None, i - 6),
            _assigned(x, x[:, :, :1, 0], None, None, i[:1], i[1:2]),
            _assigned(x, x[:1, :, 0, 0], i[1:2] % 2, None, i[2:], i[1:2]),
            x.index_put((p % 2, p), x[0, 0, 0, 0], accumulate=True),
            x.index_put((p[:, :1] % 2, p[0]), x[:1, :1, :, :], accumulate=True),
            p.repeat(2, 2).index_put((p % 4, p % 6), p, accumulate=True),
            _assigned(x, -1.0, x > 0.3),
            _assigned(x, x[0, 0, 0, :1] * 3, x[..., 0] > 0.3),
            _assigned(x, x[:, :1] * 3, None, x[0, :, 0, 0] > 0.3),
            _assigned(x, x[0, :1, 0], x[:, 0, 0, 0] > 0.3),
            _assigned(x, 3, None, None, x[0, 0] > 0.3),
            x.index_put((x[:, :, 0, 0] > 0.3,), x[:1, 0], accumulate=True),
        ),
        (X, ORDER, PLACES),
    ),
    "scatter.src": (
        lambda x, i, j: (x.scatter(1, i, x[:, :2] * 2), (x > 0).scatter(-1, j, x < 0)),
        (X, _spread([3, 1], 1, (2, 2, 6, 3)), _spread([2, 0, 1], 3, (2, 4, 6, 3))),
    ),
    "scatter.value": (
        lambda x, i: (x.scatter(1, i, 2.5), (x > 0).scatter(1, i, True)),
        (X, _spread([3, 3, 0], 1, (2, 3, 6, 3))),
    ),
    "scatter_add.default": (
        lambda x, i: (x.scatter_add(2, i, x[:, :, :1] * i), (i + 1).scatter_add(2, i, i)),
        (X, _spread([3, 5, 3, 0, 1, 3], 2, (2, 4, 6, 3))),
    ),
    "scatter_reduce.two": (
        lambda x, i: tuple(
            x.scatter_reduce(0, i, 2 * x.flip(0), reduce)
            for reduce in ("sum", "prod", "amax", "amin")
        ),
        (X, _spread([1, 1], 0, (2, 4, 6, 3))),
    ),
}
