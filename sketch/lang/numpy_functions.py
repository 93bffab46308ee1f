"""NumPy's functions of scalar expressions: ``np.exp(A[i, j])`` is our ``exp``, or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sketch.errors import ExpressionError
from sketch.lang.operator_names import FLOAT_CALLS

# Our operators by the names of NumPy's functions, but for those that Python has, too.
_OURS: Final[Mapping[str, str]] = {
    **{name: name for name in (*FLOAT_CALLS, "sign")},
    "absolute": "abs", "fabs": "abs", "rint": "round", "isnan": "is_nan", "isinf": "is_inf",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "maximum": "max", "minimum": "min", "fmod": "trunc_mod",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "equal": "eq", "not_equal": "ne",
}  # fmt: skip
_NUMBERS: Final = (bool, int, float, np.generic)


def numpy_call(
    unary: Callable[[str, Any], Any],
    binary: Callable[[str, Any, Any], Any],
    ufunc: np.ufunc,
    method: str,
    inputs: Sequence[Any],
    options: Mapping[str, Any],
) -> Any:
    """A call of one of NumPy's functions, some of whose operands are expressions.

    Arrays are taken element by element, with Python's operators.

    Args:
        unary: makes an expression, from the name of an operator and its operand.
        binary: from two operands.
        ufunc: NumPy's function.
        method: of it, such as ``"__call__"``, ``"reduce"``.
        inputs: its operands.
        options: its other arguments.

    Raises:
        ExpressionError: expressions have no such function.
    """
    scalars = not any(isinstance(item, np.ndarray) and item.ndim for item in inputs)
    op = _OURS.get(ufunc.__name__)
    if op is not None and scalars and method == "__call__" and not options:
        return unary(op, *inputs) if len(inputs) == 1 else binary(op, *inputs)
    cause: TypeError | None = None
    try:
        found = getattr(ufunc, method)(*map(_boxed, inputs), **options)
    except TypeError as error:
        cause = error
    else:
        if not _are_numbers(found):
            return found
    raise ExpressionError(
        f"numpy.{ufunc.__name__} takes no tensor expressions",
        hint="use operators and the functions of autosched: exp, sqrt, maximum, select, ...",
    ) from cause


def _are_numbers(found: Any) -> bool:
    """Whether no expression is in a result: Python's ``==`` of objects, say, is their identity."""
    items = found.ravel().tolist() if isinstance(found, np.ndarray) else [found]
    return bool(items) and all(isinstance(item, _NUMBERS) for item in items)


def _boxed(item: Any) -> Any:
    """What NumPy takes for an object, and does not ask what to do."""
    if isinstance(item, np.ndarray | np.generic):
        return item
    box = np.empty((), dtype=object)
    box[()] = item
    return box
