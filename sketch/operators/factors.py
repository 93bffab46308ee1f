"""What elements are multiplied as."""

from __future__ import annotations

from typing import Final

from sketch.lang.dtypes import AnyDtype
from sketch.lang.expr import Expr, cast
from sketch.lang.functions import round_tf32

TF32: Final = "tf32"
"""In place of a type: float32 elements, rounded to tf32 before they are multiplied."""


def factor(element: Expr, dtype: AnyDtype | None) -> Expr:
    """An element as a factor of products in ``dtype``; None: in its own type."""
    if dtype is None:
        return element
    tf32 = isinstance(dtype, str) and dtype == TF32
    return round_tf32(element) if tf32 else cast(element, dtype)


def sum_dtype(dtype: str) -> str:
    """The type that products in ``dtype`` are summed in."""
    return "float32" if dtype == TF32 else dtype
