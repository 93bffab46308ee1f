"""The one algebra of affine forms, ``const + sum(coefficient * variable)``, and of intervals.

Three kinds of forms are made of these terms: of a stage's axes (``sketch.analysis.access``), of a
nest's loop variables (``sketch.nest.loopnest.Affine``), and of what the LLVM emitter knows at a
place in the code (``codegen.llvm.values.Form``).  Intervals are inclusive at both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from sketch.lang.dtypes import BOOL, integer_limits, is_integer

V = TypeVar("V")
Interval = tuple[int, int]

# Larger than any form, small enough that sums with forms stay in 64 bits.
UNBOUNDED: Final = 2**62
_FAR: Final = 2**60


def add_terms(
    lhs: Iterable[tuple[V, int]], rhs: Iterable[tuple[V, int]], sign: int = 1
) -> tuple[tuple[V, int], ...]:
    """``lhs + sign * rhs`` in order of first appearance; terms that cancel disappear."""
    sums = dict(lhs)
    for var, coefficient in rhs:
        sums[var] = sums.get(var, 0) + sign * coefficient
    return tuple([(var, c) for var, c in sums.items() if c != 0])


def scale_terms(terms: Iterable[tuple[V, int]], factor: int) -> tuple[tuple[V, int], ...]:
    """All terms times an integer; none where it is 0."""
    return tuple([(var, c * factor) for var, c in terms]) if factor else ()


def bounds(
    const: int, terms: Iterable[tuple[V, int]], range_of: Callable[[V], Interval]
) -> Interval:
    """Least and largest value of a form whose variables vary each on its own in ``range_of``."""
    low = high = const
    for var, coefficient in terms:
        first, last = range_of(var)
        if coefficient > 0:
            low += coefficient * first
            high += coefficient * last
        else:
            low += coefficient * last
            high += coefficient * first
    return low, high


def fits(values: Interval, dtype: str) -> bool:
    """Whether an integer type holds all values of an interval, so that none wraps around, and
    differences of two of them are told from ``UNBOUNDED``.
    """
    low, high = integer_limits(dtype)
    return max(low, -_FAR) <= values[0] and values[1] <= min(high, _FAR)


def wrapped(values: Interval | None, dtype: str) -> Interval:
    """Bounds of a register of an integer type: all that it holds where a value may wrap around, or
    nothing is known of it.
    """
    low, high = limits = integer_limits(dtype)
    return values if values is not None and low <= values[0] and values[1] <= high else limits


def limits_of(dtype: str) -> Interval | None:
    """What integers and truth values of a type may be; None of floats."""
    return (0, 1) if dtype == BOOL else integer_limits(dtype) if is_integer(dtype) else None


def hull(lhs: Interval | None, rhs: Interval | None) -> Interval | None:
    """The smallest interval that contains both; None where one is unknown."""
    if lhs is None or rhs is None:
        return None
    return min(lhs[0], rhs[0]), max(lhs[1], rhs[1])


def combine_intervals(op: str, lhs: Interval | None, rhs: Interval | None) -> Interval | None:
    """Bounds of ``lhs op rhs`` for operands within these bounds; None if unknown."""
    if rhs is None:
        return None
    if rhs[0] == rhs[1] and op in _OF_CONSTANTS:
        return _with_constant(op, lhs, rhs[0])
    if lhs is None:
        return None
    match op:
        case "add":
            return lhs[0] + rhs[0], lhs[1] + rhs[1]
        case "sub":
            return lhs[0] - rhs[1], lhs[1] - rhs[0]
        case "min":
            return min(lhs[0], rhs[0]), min(lhs[1], rhs[1])
        case "max":
            return max(lhs[0], rhs[0]), max(lhs[1], rhs[1])
        case "mul":
            corners = [a * b for a in lhs for b in rhs]
            return min(corners), max(corners)
        case _:
            return None


_OF_CONSTANTS: Final = ("mod", "floordiv", "bit_and")


def _with_constant(op: str, lhs: Interval | None, value: int) -> Interval | None:
    if op == "bit_and" and value >= 0:
        return 0, value
    if op == "mod" and value > 0:
        within = lhs is not None and lhs[0] >= 0 and lhs[1] < value
        return lhs if within else (0, value - 1)
    if op == "floordiv" and value > 0 and lhs is not None:
        return lhs[0] // value, lhs[1] // value
    return None
