"""Operators that do the same with real and imaginary parts: those that move or add elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from autosched.torch_frontend.complex_numbers.pair import (
    is_complex,
    is_pair,
    pair_of,
    pair_of_source,
    parts_of,
    same_pair,
)
from autosched.torch_frontend.complex_numbers.sources import Padded

# Names of arguments that elements of the result come from.
_DATA: Final = ("self", "other", "src", "tensors", "value", "values", "source", "fill_value")
_OPERATORS: Final = (
    "neg.default", "flip.default", "expand.default",
    "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "permute.default",
    "transpose.int", "t.default", "repeat.default", "select.int",
    "split.Tensor", "split_with_sizes.default", "unbind.int", "cat.default", "stack.default",
    "index.Tensor", "index_select.default", "gather.default", "constant_pad_nd.default",
    "select_scatter.default", "diagonal.default", "tril.default",
    "triu.default", "index_put.default", "_unsafe_index.Tensor", "_unsafe_index_put.default",
    "scatter.src", "scatter.value", "scatter_add.default", "index_add.default",
    "index_copy.default", "masked_fill.Scalar", "masked_fill.Tensor", "where.self",
    "where.ScalarSelf", "where.ScalarOther", "sum.default", "sum.dim_IntList",
    "mean.default", "mean.dim", "cumsum.default", "embedding.default", "diag_embed.default",
    "masked_scatter.default",
)  # fmt: skip
_SAME: Final = (
    "alias.default", "detach.default", "clone.default", "lift_fresh.default",
    "lift_fresh_copy.default", "resolve_conj.default", "resolve_neg.default",
    "contiguous.default",
)  # fmt: skip
_VIEWS: Final = (
    "view.default", "_unsafe_view.default", "reshape.default", "_reshape_alias.default",
)  # fmt: skip
_FILLED: Final = (
    "zeros.default", "ones.default", "full.default", "empty.memory_format", "scalar_tensor.default",
    "zeros_like.default", "ones_like.default", "full_like.default", "empty_like.default",
    "new_zeros.default", "new_ones.default", "new_full.default", "new_empty.default",
)  # fmt: skip


def functions_of_parts() -> Mapping[Any, Callable[..., Any]]:
    """ATen operators and what they are for pairs."""
    import torch

    aten = torch.ops.aten

    def named(name: str) -> Any:
        operator, overload = name.split(".")
        return getattr(getattr(aten, operator), overload)

    return {
        **{named(name): partial(of_each_part, named(name)) for name in _OPERATORS},
        **dict.fromkeys(map(named, _SAME), _same),
        **dict.fromkeys(map(named, _VIEWS), _reshaped),
        **{named(name): partial(_filled, named(name)) for name in _FILLED},
        aten._to_copy.default: as_type,
        aten.copy.default: _copied,
        aten.empty_strided.default: _empty,
        aten.new_empty_strided.default: lambda x, *rest, **more: _empty(*rest, **more),
    }


def of_each_part(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """What moves elements, or is linear in them, does it with both parts."""
    names = [argument.name for argument in operator._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    dtype = given.get("dtype")
    if dtype is not None:
        given["dtype"] = dtype.to_real()
    data = [name for name in _DATA if name in given]
    results = []
    for index in (0, 1):
        own = given | {name: _part(given[name], index) for name in data}
        positional = [own.pop(name) for name in names if name in own and name not in kwargs]
        results.append(operator(*positional, **own))
    if isinstance(results[0], list | tuple):
        return [pair_of(*parts) for parts in zip(*results, strict=True)]
    return pair_of(*results)


def _part(value: Any, index: int) -> Any:
    """One part of a tensor, of a number or of each of several."""
    import torch

    if isinstance(value, list | tuple):
        return [_part(item, index) for item in value]
    if isinstance(value, torch.Tensor) and not is_pair(value) and index:
        return torch.zeros_like(value)
    return parts_of(value)[index]


def _same(x: Any, **_: Any) -> Any:
    return same_pair(x)


def _reshaped(x: Any, shape: Sequence[int], *_: Any) -> Any:
    """Parts may lie in memory in another way than one complex tensor would."""
    a, b = parts_of(x)
    return pair_of(a.reshape(shape), b.reshape(shape))


def _filled(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """New tensors, of one number."""
    import torch

    names = [argument.name for argument in operator._schema.arguments]
    given: dict[str, Any] = dict(zip(names, args, strict=False)) | kwargs
    source: Any = given.get("self")
    dtype = given.get("dtype") or getattr(source, "dtype", None)
    shape = source.shape if "_like" in operator._schema.name else given.get("size", ())
    filling = given.get("fill_value", given.get("s", "ones" in operator._schema.name))
    if dtype is not None and not dtype.is_complex:
        return torch.full(shape, parts_of(filling)[0], dtype=dtype)
    real = torch.get_default_dtype() if dtype is None else dtype.to_real()
    if filling == 0:
        return pair_of_source(Padded(tuple(shape), real))
    return pair_of(*(torch.full(shape, float(part), dtype=real) for part in parts_of(filling)))


def _empty(shape: Sequence[int], *_: Any, dtype: Any, **__: Any) -> Any:
    return pair_of_source(Padded(tuple(shape), dtype.to_real()))


def as_type(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    """Of a complex tensor that becomes a real one, the real part stays."""
    a, b = parts_of(x)
    if dtype is None:
        return x
    if not dtype.is_complex:
        return a.to(dtype)
    real = dtype.to_real()
    return pair_of(a.to(real), b.to(real) if is_complex(x) else 0)


def _copied(x: Any, src: Any, *_: Any) -> Any:
    """What is written over all of a tensor."""
    if not is_pair(x):
        return parts_of(src)[0].to(x.dtype).expand(x.shape)
    real = x.dtype.to_real()
    return pair_of(*(_part(src, index).to(real).expand(x.shape) for index in (0, 1)))
