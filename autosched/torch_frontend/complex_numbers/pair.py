"""A complex tensor while a graph is traced: two real tensors of the same shape."""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol


class Source(Protocol):
    """What a complex tensor is made of when an operator needs it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the complex tensor."""

    @property
    def dtype(self) -> Any:
        """Of its parts."""

    def made(self) -> Any:
        """``[..., 2]``, real and imaginary parts."""


@cache
def pair_type() -> Any:
    """The class of such tensors; for torch they have a complex dtype, and no elements."""
    import torch

    class Pair(torch.Tensor):
        """Two real tensors, or what both are parts of, ``[..., 2]``, or what that is made of."""

        source: Any
        _parts: Any
        _both: Any

        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls: Any, parts: Any, both: Any, source: Any) -> Any:
            like = source if source is not None else parts[0]
            pair = torch.Tensor._make_wrapper_subclass(
                cls, tuple(like.shape), dtype=like.dtype.to_complex(), device="cpu"
            )
            pair._parts, pair._both, pair.source = parts, both, source
            return pair

        @property
        def both(self) -> Any:
            if self._both is None:
                made = self._parts is None
                self._both = self.source.made() if made else torch.stack(self._parts, -1)
            return self._both

        @property
        def parts(self) -> Any:
            if self._parts is None:
                self._parts = self.both.select(-1, 0), self.both.select(-1, 1)
            return self._parts

        def same(self) -> Any:
            return Pair(self._parts, self._both, self.source)

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented

    return Pair


def is_pair(value: Any) -> bool:
    """Whether a value is a complex tensor of two real ones."""
    return isinstance(value, pair_type())


def pair_of(real: Any, imaginary: Any) -> Any:
    """A complex tensor of its parts, which are broadcast to each other.

    Args:
        real: a tensor, or a number where the other part is none.
        imaginary: a tensor, or a number where the other part is none.
    """
    import torch

    if not isinstance(real, torch.Tensor):
        real = torch.full_like(imaginary, real)
    if not real.dtype.is_floating_point:
        real = real.to(torch.get_default_dtype())
    if not isinstance(imaginary, torch.Tensor):
        imaginary = torch.full_like(real, imaginary)
    dtype = torch.result_type(real, imaginary)
    real, imaginary = real.to(dtype), imaginary.to(dtype)
    if real.shape != imaginary.shape:
        real, imaginary = torch.broadcast_tensors(real, imaginary)
    return pair_type()((real, imaginary), None, None)


def pair_of_both(both: Any) -> Any:
    """A complex tensor of ``[..., 2]``, real and imaginary parts."""
    return pair_type()((both.select(-1, 0), both.select(-1, 1)), both, None)


def pair_of_source(source: Source) -> Any:
    """A complex tensor that is made when an operator needs it."""
    return pair_type()(None, None, source)


def same_pair(pair: Any) -> Any:
    """Another object for a complex tensor: for torch a view is never the tensor itself."""
    return pair.same()


def both_of(pair: Any) -> Any:
    """``[..., 2]``, real and imaginary parts of a complex tensor."""
    return pair.both


def parts_of(value: Any) -> tuple[Any, Any]:
    """Real and imaginary part of a tensor or a number; those of real ones are numbers."""
    if is_pair(value):
        return value.parts  # type: ignore[no-any-return]
    return (value.real, value.imag) if isinstance(value, complex) else (value, 0)


def is_complex(value: Any) -> bool:
    """Whether a tensor or a number is complex."""
    return is_pair(value) or isinstance(value, complex)
