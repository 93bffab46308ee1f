"""Operators of complex tensors, replaced while a graph is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from autosched.torch_frontend.aten.call import NotTakenError
from autosched.torch_frontend.aten.decomposition import parts_of_operator
from autosched.torch_frontend.complex_numbers.arithmetic import arithmetic_functions
from autosched.torch_frontend.complex_numbers.each_part import functions_of_parts
from autosched.torch_frontend.complex_numbers.fourier import fourier_functions
from autosched.torch_frontend.complex_numbers.frames import frame_functions
from autosched.torch_frontend.complex_numbers.inverse_functions import inverse_functions
from autosched.torch_frontend.complex_numbers.pair import (
    both_of,
    is_pair,
    pair_of_both,
    same_pair,
)
from autosched.torch_frontend.complex_numbers.products import product_functions
from autosched.torch_frontend.complex_numbers.reductions import reduction_functions
from autosched.torch_frontend.complex_numbers.regions import region_functions


def replacing() -> Any:
    """A mode of torch in which no operator sees a complex tensor."""
    return _mode_type()()


@cache
def _mode_type() -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._views = _Views()
            self._functions = {**_functions(), **self._views.functions()}
            self._always = _of_real_numbers()

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            part = self._views.part(func, args)
            if part is not None:
                return part
            if func not in self._always and not _concerns((args, kwargs)):
                return func(*args, **kwargs)
            known = self._functions.get(func) or parts_of_operator(func)
            if known is None:
                raise NotTakenError(f"{func} of complex numbers", func)
            with self:
                return known(*args, **kwargs)

    return Mode


def _functions() -> Mapping[Any, Callable[..., Any]]:
    return {
        **functions_of_parts(),
        **arithmetic_functions(),
        **inverse_functions(),
        **reduction_functions(),
        **product_functions(),
        **fourier_functions(),
        **frame_functions(),
        **region_functions(),
    }


def _of_real_numbers() -> frozenset[Any]:
    """Operators that are replaced whatever their arguments are."""
    import torch

    aten = torch.ops.aten
    makers = aten.complex.default, aten.polar.default, aten._fft_r2c.default
    views = aten.view_as_complex.default, aten.copy.default, aten.slice_scatter.default
    return frozenset((*makers, *views, *frame_functions()))


def _concerns(given: Any) -> bool:
    """Whether there is something complex among arguments: a tensor, a number or a type."""
    if isinstance(given, list | tuple):
        return any(map(_concerns, given))
    if isinstance(given, dict):
        return any(map(_concerns, given.values()))
    kind = getattr(given, "dtype", given)
    return isinstance(given, complex) or getattr(kind, "is_complex", False) is True


class _Views:
    """Views of complex tensors as real ones: parts of them are those of the tensors."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, Any]] = {}

    def functions(self) -> Mapping[Any, Callable[..., Any]]:
        """ATen operators and what they are for pairs."""
        import torch

        aten = torch.ops.aten
        return {
            aten.view_as_real.default: self._viewed,
            aten.view_as_complex.default: self._complex,
            aten.view.dtype: _seen_as,
        }

    def part(self, func: Any, args: Sequence[Any]) -> Any:
        """What an operator selects; None unless that is a part of a complex tensor."""
        import torch

        aten = torch.ops.aten
        if func is not aten.select.int or id(args[0]) not in self._seen:
            return None
        both, pair = self._seen[id(args[0])]
        taken = args[1] in (-1, both.dim() - 1)
        return aten.alias.default(pair.parts[args[2]]) if taken else None

    def _viewed(self, pair: Any) -> Any:
        import torch

        both = torch.ops.aten.alias.default(both_of(pair))  # a view is never the tensor itself
        self._seen[id(both)] = both, pair
        return both

    def _complex(self, both: Any) -> Any:
        known = self._seen.get(id(both))
        return pair_of_both(both) if known is None else same_pair(known[1])


def _seen_as(x: Any, dtype: Any) -> Any:
    """Numbers of one precision: parts beside one another, or two beside one another as a number."""
    if x.dtype == dtype:
        return same_pair(x)
    if is_pair(x) and dtype == x.dtype.to_real():
        return both_of(x).flatten(-2)
    if not is_pair(x) and dtype.is_complex and dtype == x.dtype.to_complex():
        return pair_of_both(x.unflatten(-1, (-1, 2)))
    raise NotTakenError(f"{x.dtype} numbers seen as {dtype}")
